"""What hosts say of themselves; see `storage.gating`."""

import struct
from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVED_FOR
from limpet.storage.contract.gating import SAMPLES_KEPT
from limpet.storage.redis.link import RedisLink


def publish_host(
    link: RedisLink, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample]
) -> None:
    """Keep what a host says; see `GateVerbs.publish_host`."""
    kept = [(span, microseconds(time)) for span, time in SAMPLES_KEPT.items()]
    lives = microseconds(lifetime)
    link.call("publish_host", server, body, lives, [*samples], kept, RESERVED_FOR)


def hosts(link: RedisLink, server: str | None) -> tuple[Host, ...]:
    """What still holds; see `GateVerbs.hosts`."""
    told = link.call("hosts", False if server is None else server)[1]
    return tuple(
        sorted(
            Host(server.decode(), body, at, int(until))
            for server, until, (at, body) in zip(
                told[::3], told[1::3], map(_stamped, told[2::3]), strict=True
            )
        )
    )


def samples(link: RedisLink, server: str, span: Span) -> tuple[Sample, ...]:
    """How a host has been doing; see `GateVerbs.samples`."""
    told = link.call("samples", server, span, microseconds(SAMPLES_KEPT[span]))[1]
    return tuple(Sample(span, *_stamped(each)) for each in told)


def _stamped(text: bytes) -> tuple[int, str]:
    """When something was said, and what."""
    (at,) = struct.unpack_from(">d", text)
    return int(at), text[8:].decode()
