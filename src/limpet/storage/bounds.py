"""How much a store takes at once and how much it keeps, the same in each."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.storage.base import CHUNK

# Of what one job says of itself while it runs.
MOST_LINES = 1_000
LONGEST_LINE = 8_192
LONGEST_NOTE = 1_024

MOST_PER_PAGE = 1_000
SESSIONS_KEPT = timedelta(days=1)


def at_most_a_chunk(items: Sequence[object]) -> None:
    """Refuse what is too much for one call of a verb."""
    if len(items) > CHUNK:
        raise ValueError(f"a verb takes at most {CHUNK} at once, not {len(items)}")


def page_size(limit: int) -> int:
    """How many a page has, for a given limit."""
    return max(1, min(limit, MOST_PER_PAGE))


def prefix_within(sizes: Sequence[int], most: int) -> int:
    """How many of the first fit into so many bytes; at least one."""
    total = 0
    for place, size in enumerate(sizes):
        total += size
        if total > most:
            return max(1, place)
    return len(sizes)
