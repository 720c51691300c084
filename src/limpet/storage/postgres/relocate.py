"""A store that moves to another place: the steps of the move."""

from limpet.storage.contract.relocation import Relocated, Relocation, relocate_in, relocation_in
from limpet.storage.postgres.transaction import Transaction


def relocation(tx: Transaction) -> tuple[Relocation | None, str]:
    """The store's part in a move; see `MoveVerbs.relocation`."""
    return relocation_in(tx)


def relocate(tx: Transaction, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """Make one step of a move; see `MoveVerbs.relocate`."""
    tx.run("relocate", "soon")
    tx.run("relocate", "alone")
    return relocate_in(tx, was, wanted)
