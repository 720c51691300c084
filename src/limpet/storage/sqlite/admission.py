"""The gate of a claim: which jobs with a weight fit on its host; see `contract.gating`."""

from collections.abc import Iterable

from limpet.domain.permit import Gate, PassedOver, Taken, fits, helped_by_an_end
from limpet.domain.weight import Weight
from limpet.storage.sqlite.permits import columns, confirmed, reserved_for, taken_of
from limpet.storage.sqlite.transaction import Transaction


class Admission:
    """One claim at the gate of its host; without a gate everything passes."""

    def __init__(self, tx: Transaction, gate: Gate | None) -> None:
        self._tx = tx
        self._gate = gate
        self._known: tuple[Taken, int | str | None] | None = None
        self._admitted: dict[int, Weight] = {}
        self.passed_over = PassedOver.NOTHING

    def weight(self, task: str) -> Weight | None:
        """The weight of jobs of the task; None for light ones."""
        return None if self._gate is None else self._gate.weights.get(task)

    def admits(self, n: int, weight: Weight) -> bool:
        """Whether this job may begin; if so, its weight counts for the rest of the claim."""
        assert self._gate is not None
        room = self._gate.room
        if self._known is None:
            self._known = taken_of(self._tx, room), reserved_for(self._tx, room.server)
        taken, reserved = self._known
        if reserved in (None, n) and fits(room, taken, weight):
            self._known = taken.plus(weight), None
            self._admitted[n] = weight
            return True
        carried = PassedOver.FOR_NOW if room.carries(weight) else PassedOver.FOR_EVER
        self.passed_over = max(self.passed_over, carried)
        if not helped_by_an_end(room, taken, weight):
            return False
        if reserved == n or (reserved is None and self._may_reserve(n, self._gate)):
            self._tx.run("gate", "reserve", server=room.server, n=n, now=self._tx.now)
            self._known = taken, n
        return False

    def _may_reserve(self, n: int, gate: Gate) -> bool:
        tx = self._tx
        ((ready_at,),) = tx.run("gate", "ready_at", n=n)
        if ready_at > tx.now - gate.reserve_after_us:
            return False
        return tx.one("gate", "there", n=n, server=gate.room.server, **confirmed(tx)) is None

    def keep(self, taken: Iterable[int]) -> None:
        """Write the permits of the jobs that were taken."""
        if self._gate is None or not self._admitted:
            return
        tx, server = self._tx, self._gate.room.server
        numbers = [n for n in taken if n in self._admitted]
        tx.many("gate", "give", ((server, *columns(self._admitted[n]), tx.now, n) for n in numbers))
