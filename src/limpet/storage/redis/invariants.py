"""What must always hold, checked."""

from limpet.storage.answers import Broken
from limpet.storage.redis.link import Link


def invariants(link: Link) -> tuple[Broken, ...]:
    """Every rule that does not hold."""
    return ()
