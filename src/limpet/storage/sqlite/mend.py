"""Puts right what can be told from the jobs themselves; each rule in a step of its own."""

from collections.abc import Callable

from limpet.storage.assets import script
from limpet.storage.contract.answers import Mended
from limpet.storage.contract.store import ANY_QUEUE
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.invariants import HOLDINGS, invariants, wrong_holdings
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import PACKAGE, Transaction

_GAUGES = "gauges_are_right"


def mend(db: Database) -> tuple[Mended, ...]:
    """Mend what does not hold; see `AdminVerbs.mend`."""
    broken = {each.invariant for each in db.read(invariants)}
    # Last, because what is mended before may move jobs from state to state.
    rules = sorted(broken, key=lambda rule: rule == _GAUGES)
    if rules and _GAUGES not in broken:
        rules.append(_GAUGES)
    told = ((rule, db.write(_step(rule))) for rule in rules)
    return tuple(Mended(rule, count) for rule, count in told if count and rule in broken)


def _step(rule: str) -> Callable[[Transaction], int]:
    def step(tx: Transaction) -> int:
        must_take_writes(tx)
        count = _holdings(tx) if rule == HOLDINGS else _run(tx, rule)
        if count:
            tx.many("transaction", "total", [(ANY_QUEUE, f"mend:{rule}", count)])
        return count

    return step


def _run(tx: Transaction, rule: str) -> int:
    known = script(PACKAGE, "sql", "mend").statements
    steps = (name for name in known if name == rule or name.startswith(f"{rule}_"))
    return sum(len(tx.run("mend", name, now=tx.now)) for name in steps)


def _holdings(tx: Transaction) -> int:
    wrong = wrong_holdings(tx)
    tx.many("mend", HOLDINGS, [(session, real.count, real.total) for session, _, real in wrong])
    return len(wrong)
