"""A store that moves to another place: what it refuses, and the steps of the move."""

from limpet.storage.refusals import not_arriving
from limpet.storage.relocation import (
    Relocated,
    Relocation,
    Stage,
    need_of,
    refused,
    relocation_of,
)
from limpet.storage.sqlite import schema
from limpet.storage.sqlite.transaction import Transaction, Value


def must_take_writes(tx: Transaction) -> None:
    """Raise `StoreMoved` where nothing is written any more, or not yet."""
    row = tx.one("relocate", "closed")
    check(tx, row[0] if row else None)


def must_take_work(tx: Transaction) -> None:
    """Raise `StoreMoved` where nothing new is begun."""
    row = tx.one("relocate", "closed")
    check(tx, row[0] if row else None, new=True)


def check(tx: Transaction, closed: Value, *, new: bool = False) -> None:
    """As above, for whoever has read what `closed` says beside something else."""
    if closed is not None and (new or closed != Stage.CLOSING):
        row = tx.one("relocate", "record")
        raise refused(row[0] if row else None)


def relocation(tx: Transaction) -> tuple[Relocation | None, str]:
    """The store's part in a move; see `MoveVerbs.relocation`."""
    row = tx.one("relocate", "record")
    return (relocation_of(row[0]), row[1] or "") if row else (None, "")


def relocate(tx: Transaction, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """One step of a move; see `MoveVerbs.relocate`."""
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
        oldest=schema.OLDEST_BESIDE,
        newest=schema.NEWEST,
    )
    return Relocated(True, wanted)


def must_be(tx: Transaction, stage: Stage, move: str) -> None:
    """Raise `StoreNotMoved` unless the store is at that stage of that move."""
    now, _ = relocation(tx)
    if now is None or now.stage is not stage or now.id != move:
        raise not_arriving(move)
