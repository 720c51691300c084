"""Puts right what can be told from the jobs themselves; each rule in a step of its own."""

from collections.abc import Callable

from limpet.storage.assets import script
from limpet.storage.contract.answers import Mended
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.invariants import invariants
from limpet.storage.postgres.transaction import PACKAGE, Transaction

# Last, because what is mended before may move jobs from state to state, or change what is held.
_LATER = ("turns_are_counted", "holdings", "counts_are_right")


def mend(db: Database) -> tuple[Mended, ...]:
    """Mend what does not hold; see `AdminVerbs.mend`."""
    broken = {each.invariant for each in db.read(invariants, patient=True)}
    if not broken:
        return ()
    rules = [*sorted(broken.difference(_LATER)), *_LATER]
    told = ((rule, db.write(_step(rule))) for rule in rules)
    return tuple(Mended(rule, count) for rule, count in told if count and rule in broken)


def _step(rule: str) -> Callable[[Transaction], int]:
    def step(tx: Transaction) -> int:
        tx.call("pass", False)
        tx.run("connection", "patient")
        # Two that mend the same counts at once would each add what is lacking.
        tx.run("mend", "alone", lock=f"{tx.quoted}.mend")
        known = script(PACKAGE, "sql", "mend").statements
        steps = (name for name in known if name == rule or name.startswith(f"{rule}_"))
        rows = [row for name in steps for row in tx.run("mend", name)]
        count = sum(1 for (what,) in rows if what is not None)
        if count:
            tx.run("mend", "total", rule=rule, count=count)
        return count

    return step
