"""What must always hold, checked; each rule is a statement of sql/invariants.sql."""

from limpet.storage.assets import script
from limpet.storage.contract.answers import Broken
from limpet.storage.postgres.transaction import PACKAGE, Transaction


def names() -> list[str]:
    """The rules, in the order in which they are checked."""
    return list(script(PACKAGE, "sql", "invariants").statements)


def invariants(tx: Transaction) -> tuple[Broken, ...]:
    """Every rule that is broken, with an example."""
    broken = []
    tx.run("connection", "no_timeout")
    for name, statement in script(PACKAGE, "sql", "invariants").statements.items():
        wrong = [str(row[0]) for row in tx.run("invariants", name)]
        if wrong:
            sentence = statement.partition("\n")[0].removeprefix("-- ")
            broken.append(Broken(name, sentence, len(wrong), wrong[0]))
    return tuple(broken)
