"""A store that moves to another place: the steps of the move."""

from limpet.storage.postgres.transaction import Transaction
from limpet.storage.relocation import Relocated, Relocation, need_of, relocation_of


def relocation(tx: Transaction) -> tuple[Relocation | None, str]:
    """The store's part in a move; see `MoveVerbs.relocation`."""
    row = tx.one("relocate", "record")
    return (relocation_of(row[0]), row[1] or "") if row else (None, "")


def relocate(tx: Transaction, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """One step of a move; see `MoveVerbs.relocate`."""
    tx.run("relocate", "soon")
    tx.run("relocate", "alone")
    now, _ = relocation(tx)
    if now == wanted:
        return Relocated(True, now)
    if now != was:
        return Relocated(False, now)
    need = need_of(was, wanted)
    if need:
        ((running, jobs, sessions),) = tx.run("relocate", "in_the_way")
        if running if need == "idle" else jobs + sessions:
            return Relocated(False, now, running, jobs, sessions)
    tx.run(
        "relocate",
        "write",
        closed=wanted.closes if wanted else None,
        record=wanted.text() if wanted else None,
    )
    return Relocated(True, wanted)
