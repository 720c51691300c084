"""The reports and samples of hosts; see `contract.gating`."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.host import Host, Sample, Span
from limpet.storage.contract.gating import SAMPLES_KEPT
from limpet.storage.sqlite.permits import confirmed
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction


def publish_host(
    tx: Transaction, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample]
) -> None:
    """Keep the report of a host; see `GateVerbs.publish_host`."""
    must_take_writes(tx)
    until = tx.now + microseconds(lifetime)
    tx.run("hosts", "publish", server=server, body=body, now=tx.now, until=until)
    tx.run("hosts", "gone", now=tx.now)
    tx.run("gate", "unreserved", **confirmed(tx))
    tx.many(
        "hosts", "sample", ((server, sample.span, sample.at, sample.body) for sample in samples)
    )
    for span, kept in SAMPLES_KEPT.items():
        tx.run("hosts", "old", span=span, before=tx.now - microseconds(kept))


def hosts(tx: Transaction, server: str | None) -> tuple[Host, ...]:
    """The reports that have not lapsed; see `GateVerbs.hosts`."""
    if server is None:
        rows = tx.run("hosts", "hosts", now=tx.now)
    else:
        rows = tx.run("hosts", "host", server=server, now=tx.now)
    return tuple(Host(*row) for row in rows)


def samples(tx: Transaction, server: str, span: Span) -> tuple[Sample, ...]:
    """The samples of a host; see `GateVerbs.samples`."""
    rows = tx.run("hosts", "samples", server=server, span=span)
    return tuple(Sample(Span(kind), at, body) for kind, at, body in rows)
