"""Who is measured: Limpet on each store, and its peers."""

from contender import Contender
from engines import POSTGRES, REDIS, REDIS_ALWAYS, REDIS_EVERYSEC, SQLITE, SQLITE_NORMAL
from limpet_contender import Limpet
from peers.catalog import EVERY

KINDS = ("async", "sync")
# What the goals are for: each store as it comes.
PLAIN = [Limpet(kind, engine) for engine in (SQLITE, REDIS, POSTGRES) for kind in KINDS]
# Other durabilities, for a drain only.
OTHERS = [Limpet("async", engine) for engine in (SQLITE_NORMAL, REDIS_EVERYSEC, REDIS_ALWAYS)]
LIMPETS = [*PLAIN, *OTHERS]
ENGINES = [SQLITE, REDIS, POSTGRES]


def limpet(engine_name: str, kind: str = "async") -> Limpet:
    """The plain one on that engine."""
    (found,) = [each for each in PLAIN if (each.engine.name, each.kind) == (engine_name, kind)]
    return found


def mixed(limpets: list[Limpet]) -> list[Contender]:
    """Peers between Limpet's rows, so that a slow minute does not hit one side only."""
    order: list[Contender] = list(EVERY)
    step = max(1, len(order) // max(1, len(limpets)))
    for number, each in enumerate(limpets):
        order.insert(number * (step + 1), each)
    return order
