"""The contenders: Limpet on each store, and its peers."""

from itertools import zip_longest

from contender import Contender
from engines import POSTGRES, REDIS, REDIS_ALWAYS, REDIS_EVERYSEC, SQLITE, SQLITE_NORMAL
from limpet_contender import Limpet
from peers.catalog import EVERY

KINDS = ("async", "sync")
# The contenders of the goals: each store with its defaults.
PLAIN = [Limpet(kind, engine) for engine in (SQLITE, REDIS, POSTGRES) for kind in KINDS]
# Other durabilities, for a drain only.
OTHERS = [Limpet("async", engine) for engine in (SQLITE_NORMAL, REDIS_EVERYSEC, REDIS_ALWAYS)]
LIMPETS = [*PLAIN, *OTHERS]
ENGINES = [SQLITE, REDIS, POSTGRES]


def limpet(engine_name: str, kind: str = "async") -> Limpet:
    """The contender with default settings on that engine."""
    (found,) = [row for row in PLAIN if (row.engine.name, row.kind) == (engine_name, kind)]
    return found


def mixed(limpets: list[Limpet]) -> list[Contender]:
    """Store by store, peers between Limpet's rows: a slow minute does not hit one side only."""
    order: list[Contender] = []
    for engine in ENGINES:
        ours = [each for each in limpets if each.engine.scheme == engine.scheme]
        theirs = [each for each in EVERY if each.engine.scheme == engine.scheme]
        order += [each for pair in zip_longest(ours, theirs) for each in pair if each is not None]
    return order
