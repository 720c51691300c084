"""Puts right what can be told from the jobs themselves, some of them at a time."""

from collections import Counter

from limpet.storage.contract.answers import Mended
from limpet.storage.redis.link import RedisLink

_AT_ONCE = 500
# Counting them takes the server about a quarter of a second, and everybody waits for it.
_MOST_COUNTED = 100_000


def mend(link: RedisLink) -> tuple[Mended, ...]:
    """Mend what does not hold; see `AdminVerbs.mend`."""
    found: Counter[str] = Counter()
    cursor = "0"
    while True:
        _, next_cursor, told = link.call("mend_jobs", cursor, _AT_ONCE)
        found.update({rule.decode(): count for rule, count, _ in told})
        cursor = next_cursor.decode()
        if cursor == "0":
            break
    told = link.call("mend_store", _MOST_COUNTED)[1]
    found.update({rule.decode(): count for rule, count, _ in told})
    return tuple(Mended(rule, count) for rule, count in sorted(found.items()))
