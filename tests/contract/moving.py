"""Steps of a move, as the tests of its verbs take them."""

from itertools import pairwise

from limpet.storage.contract.relocation import Cargo, MoveStage, Relocation
from limpet.storage.contract.store import Store

MOVE = "m" * 26


def at(stage: MoveStage, move: str = MOVE) -> Relocation:
    return Relocation(move, stage, "redis://elsewhere:6379/0", "epoch")


CLOSING, CLOSED, MOVED = at(MoveStage.CLOSING), at(MoveStage.CLOSED), at(MoveStage.MOVED)
ARRIVING, ARRIVED, EMPTYING = at(MoveStage.ARRIVING), at(MoveStage.ARRIVED), at(MoveStage.EMPTYING)


def step(store: Store, *stages: Relocation | None) -> None:
    """Take a store from stage to stage."""
    for was, wanted in pairwise(stages):
        assert store.relocate(was, wanted).done


def cargos(store: Store) -> list[Cargo]:
    found = [store.cargo()]
    while found[-1].more:
        found.append(store.cargo(found[-1].cursor))
    return found


def carry(source: Store, target: Store) -> int:
    """The whole move, without what makes it safe; how many jobs were carried."""
    step(target, None, ARRIVING)
    count = sum(target.adopt(MOVE, each) for each in cargos(source))
    target.furnish(MOVE, source.manifest())
    step(target, ARRIVING, ARRIVED)
    return count
