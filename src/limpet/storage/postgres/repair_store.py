"""Repairs what can be derived from the jobs themselves; each rule in a transaction of its own."""

from collections.abc import Callable

from limpet.storage.assets import script
from limpet.storage.contract.answers import Repaired
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.invariants import invariants
from limpet.storage.postgres.transaction import PACKAGE, Transaction

# Last, because other repairs may move jobs from state to state, or change what sessions hold.
_LATER = ("turns_are_counted", "holdings", "counts_are_right")


def repair_store(db: Database) -> tuple[Repaired, ...]:
    """Repair the rules that are broken; see `AdminVerbs.repair_store`."""
    broken = {rule.invariant for rule in db.read(invariants, no_timeout=True)}
    if not broken:
        return ()
    rules = [*sorted(broken.difference(_LATER)), *_LATER]
    counts = ((rule, db.write(_step(rule))) for rule in rules)
    return tuple(Repaired(rule, count) for rule, count in counts if count and rule in broken)


def _step(rule: str) -> Callable[[Transaction], int]:
    def step(tx: Transaction) -> int:
        tx.call("pass", False)
        tx.run("connection", "no_timeout")
        # One at a time: two repairs of the same counts would both add what is missing.
        tx.run("repair_store", "alone", lock=f"{tx.quoted}.mend")
        known = script(PACKAGE, "sql", "repair_store").statements
        steps = (name for name in known if name == rule or name.startswith(f"{rule}_"))
        rows = [row for name in steps for row in tx.run("repair_store", name)]
        count = sum(1 for (what,) in rows if what is not None)
        if count:
            tx.run("repair_store", "total", rule=rule, count=count)
        return count

    return step
