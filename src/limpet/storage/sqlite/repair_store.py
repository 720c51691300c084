"""Corrects what follows from the jobs themselves; each rule in a step of its own."""

from collections.abc import Callable

from limpet.storage.assets import script
from limpet.storage.contract.answers import Repaired
from limpet.storage.contract.store import ANY_QUEUE
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.invariants import HOLDINGS, invariants, wrong_holdings
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import PACKAGE, Transaction

_GAUGES = "gauges_are_right"


def repair_store(db: Database) -> tuple[Repaired, ...]:
    """Repair the invariants that do not hold; see `AdminVerbs.repair_store`."""
    broken = {finding.invariant for finding in db.read(invariants)}
    # The gauges last, because the other repairs may move jobs from state to state.
    rules = sorted(broken, key=lambda rule: rule == _GAUGES)
    if rules and _GAUGES not in broken:
        rules.append(_GAUGES)
    repaired = ((rule, db.write(_step(rule))) for rule in rules)
    return tuple(Repaired(rule, count) for rule, count in repaired if count and rule in broken)


def _step(rule: str) -> Callable[[Transaction], int]:
    def step(tx: Transaction) -> int:
        must_take_writes(tx)
        count = _holdings(tx) if rule == HOLDINGS else _run(tx, rule)
        if count:
            tx.many("transaction", "total", [(ANY_QUEUE, f"mend:{rule}", count)])
        return count

    return step


def _run(tx: Transaction, rule: str) -> int:
    known = script(PACKAGE, "sql", "repair_store").statements
    steps = (name for name in known if name == rule or name.startswith(f"{rule}_"))
    return sum(len(tx.run("repair_store", name, now=tx.now)) for name in steps)


def _holdings(tx: Transaction) -> int:
    wrong = wrong_holdings(tx)
    tx.many(
        "repair_store", HOLDINGS, [(session, real.count, real.total) for session, _, real in wrong]
    )
    return len(wrong)
