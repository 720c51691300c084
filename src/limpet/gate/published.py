"""What a host says of itself, as it is published: JSON, for people and neighbouring versions."""

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

    `boot`: the start of the machine that measured; its boot time means something only there.
    `worker`, `session`: who measured.
    """

    reading: Reading
    capacity: Capacity
    thresholds: Thresholds
    boot: str
    worker: str
    session: str


_DECODER = msgspec.json.Decoder(Published)


def written(published: Published) -> str:
    """As it goes to a store."""
    return msgspec.json.encode(published).decode()


def published_of(text: str) -> Published | None:
    """Read what `written` wrote; what cannot be read is as unknown as what was never told."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, InvalidOption):
        return None


def assess_published(host: Host, wall: int, boot_id: str, boot: int) -> Assessment | None:
    """What a host has room for, as anyone can tell who reads it; None if it cannot be read.

    `boot`: the boot time of this machine. On another one the age of the reading is that of the row,
    by a wall clock that may differ from the store's: but the store has said that it holds.
    """
    published = published_of(host.body)
    if published is None:
        return None
    reading = published.reading
    age = boot - reading.at_boot
    if published.boot != boot_id:
        age = min(max(0, wall - host.at), LIFETIME_MICROSECONDS - 1)
    now = reading.at_boot + age
    return assess(host.server, reading, published.capacity, now, published.thresholds)
