"""The reports of hosts; see `storage.contract.gating`."""

import struct
from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVED_FOR_US
from limpet.storage.contract.gating import SAMPLES_KEPT
from limpet.storage.redis.link import RedisLink


def publish_host(
    link: RedisLink, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample]
) -> None:
    """Keep the report of a host; see `GateVerbs.publish_host`."""
    kept = [(span, microseconds(time)) for span, time in SAMPLES_KEPT.items()]
    lifetime_us = microseconds(lifetime)
    link.call("publish_host", server, body, lifetime_us, [*samples], kept, RESERVED_FOR_US)


def hosts(link: RedisLink, server: str | None) -> tuple[Host, ...]:
    """The reports that are not outdated; see `GateVerbs.hosts`."""
    reports = link.call("hosts", False if server is None else server)[1]
    return tuple(
        sorted(
            Host(server.decode(), body, at, int(until))
            for server, until, (at, body) in zip(
                reports[::3], reports[1::3], map(_stamped, reports[2::3]), strict=True
            )
        )
    )


def samples(link: RedisLink, server: str, span: Span) -> tuple[Sample, ...]:
    """The measurements of a host over time; see `GateVerbs.samples`."""
    texts = link.call("samples", server, span, microseconds(SAMPLES_KEPT[span]))[1]
    return tuple(Sample(span, *_stamped(text)) for text in texts)


def _stamped(text: bytes) -> tuple[int, str]:
    """The time and the text of a report or a sample."""
    (at,) = struct.unpack_from(">d", text)
    return int(at), text[8:].decode()
