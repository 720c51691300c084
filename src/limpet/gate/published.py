"""What a monitor publishes of its host: JSON, which people and neighbouring versions can read."""

from dataclasses import dataclass

import msgspec

from limpet.domain.assessment import Assessment, Capacity
from limpet.domain.errors import InvalidOption
from limpet.domain.host import Host
from limpet.domain.reading import Reading
from limpet.gate.assess import LIFETIME_MICROSECONDS, Thresholds, assess


@dataclass(frozen=True, slots=True)
class Published:
    """A reading, and what is needed to judge the host by it.

    `boot`: the id of that machine's boot; boot times of the reading mean nothing elsewhere.
    `worker`, `session`: of the worker that measured.
    """

    reading: Reading
    capacity: Capacity
    thresholds: Thresholds
    boot: str
    worker: str
    session: str


_DECODER = msgspec.json.Decoder(Published)


def written(published: Published) -> str:
    """The text that goes to a store."""
    return msgspec.json.encode(published).decode()


def published_of(text: str) -> Published | None:
    """Read what `written` wrote; None if it cannot be read."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, InvalidOption):
        return None


def assess_published(host: Host, wall: int, boot_id: str, boot: int) -> Assessment | None:
    """What a host has room for, by what its monitor published; None if that cannot be read.

    `boot`: the boot time of this machine. A reading of another machine is as old as its row, by a
    wall clock that may differ from the store's. It never counts as too old here, because the store
    has returned the row as valid.
    """
    published = published_of(host.body)
    if published is None:
        return None
    reading = published.reading
    age_us = boot - reading.at_boot
    if published.boot != boot_id:
        age_us = min(max(0, wall - host.at), LIFETIME_MICROSECONDS - 1)
    now = reading.at_boot + age_us
    return assess(host.server, reading, published.capacity, now, published.thresholds)
