"""Hosts and weights, and a worker that says to a store what its host can carry."""

from collections.abc import Mapping, Sequence

from contract.driver import MINUTE, Holder

from limpet.domain.job import ClaimedJob
from limpet.domain.permit import RESERVE_AFTER_US, Gate, Room
from limpet.domain.transition import Settlement
from limpet.domain.weight import Weight
from limpet.storage.contract.store import Store, Want

GIB = 1 << 30
CORE = Weight(cpu=1.0)
HALF = Weight(cpu=0.5)
# Four cores and eight GiB, of which nothing is known but that.
ROOM = Room("web-1", 4_000, 8 * GIB)
WAITED = RESERVE_AFTER_US + MINUTE


class Gated(Holder):
    """A worker whose tasks have weights: `task` is light, `render` takes a core."""

    def __init__(
        self,
        store: Store,
        weights: Mapping[str, Weight] | None = None,
        room: Room = ROOM,
        tasks: Sequence[str] = (),
    ) -> None:
        self.weights = {"render": CORE} if weights is None else weights
        self.room = room
        super().__init__(store, sorted({"task", *self.weights, *tasks}))

    def gated(
        self,
        *settlements: Settlement,
        total: int = 10,
        room: Room | None = None,
        suspects: int = 0,
        slots: Mapping[str, int] | None = None,
    ) -> tuple[ClaimedJob, ...]:
        """Claim beside what the host carries."""
        want = Want((self.pool(total, slots, suspects),), self.gate(room))
        return self.exchange(*settlements, want=want).claimed

    def gate(self, room: Room | None = None) -> Gate:
        return Gate(room or self.room, self.weights)

    def gated_ids(self, total: int = 10, room: Room | None = None, suspects: int = 0) -> list[str]:
        return [each.lease.job for each in self.gated(total=total, room=room, suspects=suspects)]
