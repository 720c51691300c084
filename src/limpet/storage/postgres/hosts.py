"""What hosts publish about themselves; see `storage.contract.gating`."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVED_FOR_US
from limpet.storage.contract.gating import SAMPLES_KEPT
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json


def publish_host(
    tx: Transaction, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample]
) -> None:
    """Keep what a host publishes; see `GateVerbs.publish_host`."""
    tx.call("pass", False)
    tx.run(
        "hosts",
        "publish",
        server=server,
        body=body,
        lifetime=microseconds(lifetime),
        now=tx.wall,
    )
    tx.run("hosts", "gone", now=tx.wall)
    tx.run("hosts", "unreserved", now=tx.wall, reserved_for=RESERVED_FOR_US)
    # One statement must not write the same row twice.
    latest = {(sample.span, sample.at): sample for sample in samples}
    if latest:
        tx.run("hosts", "sample", server=server, samples=to_json(list(latest.values())))
    for span, kept in SAMPLES_KEPT.items():
        tx.run("hosts", "old", span=span.value, kept=microseconds(kept), now=tx.wall)


def hosts(tx: Transaction, server: str | None) -> tuple[Host, ...]:
    """The hosts whose data has not expired; see `GateVerbs.hosts`."""
    if server is None:
        rows = tx.run("hosts", "hosts", now=tx.wall)
    else:
        rows = tx.run("hosts", "host", server=server, now=tx.wall)
    return tuple(Host(*row) for row in rows)


def samples(tx: Transaction, server: str, span: Span) -> tuple[Sample, ...]:
    """The samples of a host; see `GateVerbs.samples`."""
    rows = tx.run("hosts", "samples", server=server, span=span.value)
    return tuple(Sample(Span(kind), at, body) for kind, at, body in rows)
