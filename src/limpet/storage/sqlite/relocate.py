"""A store that moves to another place: its refusals, and the steps of the move."""

from limpet.storage.contract.refusals import not_arriving
from limpet.storage.contract.relocation import (
    MoveStage,
    Relocated,
    Relocation,
    refused,
    relocate_in,
    relocation_in,
)
from limpet.storage.sqlite.transaction import Transaction, Value


def must_take_writes(tx: Transaction) -> None:
    """Raise `StoreMoved` if the store takes no writes any more, or not yet."""
    row = tx.one("relocate", "closed")
    check(tx, row[0] if row else None)


def must_take_work(tx: Transaction) -> None:
    """Raise `StoreMoved` if nothing new may begin in the store."""
    row = tx.one("relocate", "closed")
    check(tx, row[0] if row else None, new=True)


def check(tx: Transaction, closed: Value, *, new: bool = False) -> None:
    """The same checks for a caller that has read the column `closed` already."""
    if closed is not None and (new or closed != MoveStage.CLOSING):
        row = tx.one("relocate", "record")
        raise refused(row[0] if row else None)


def relocation(tx: Transaction) -> tuple[Relocation | None, str]:
    """The store's part in a move; see `MoveVerbs.relocation`."""
    return relocation_in(tx)


def relocate(tx: Transaction, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """One step of a move; see `MoveVerbs.relocate`."""
    return relocate_in(tx, was, wanted)


def must_be(tx: Transaction, stage: MoveStage, move: str) -> None:
    """Raise `StoreNotMoved` unless the store is at that stage of that move."""
    now, _ = relocation(tx)
    if now is None or now.stage is not stage or now.id != move:
        raise not_arriving(move)
