"""Repairs what the jobs themselves show to be wrong, some of them at a time."""

from collections import Counter

from limpet.storage.contract.answers import Repaired
from limpet.storage.redis.link import RedisLink

_AT_ONCE = 500
# To count so many jobs takes the server about a quarter of a second, and all its clients wait.
_MOST_COUNTED = 100_000


def repair_store(link: RedisLink) -> tuple[Repaired, ...]:
    """Repair what does not hold; see `AdminVerbs.repair_store`."""
    found: Counter[str] = Counter()
    cursor = "0"
    while True:
        _, next_cursor, repaired = link.call("repair_jobs", cursor, _AT_ONCE)
        found.update({rule.decode(): count for rule, count, _ in repaired})
        cursor = next_cursor.decode()
        if cursor == "0":
            break
    repaired = link.call("repair_store", _MOST_COUNTED)[1]
    found.update({rule.decode(): count for rule, count, _ in repaired})
    return tuple(Repaired(rule, count) for rule, count in sorted(found.items()))
