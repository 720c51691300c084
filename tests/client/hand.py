"""A stand-in for a worker that claims and settles through the real store."""

from limpet import App
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Settlement
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.store import ANY_QUEUE, Pool, Store, Want


class Hand:
    """Claims and settles as a worker would."""

    def __init__(self, app: App) -> None:
        self.store: Store = app.client.store
        self.session = app.client.ids.new()
        tasks = frozenset(app.tasks)
        new = NewSession(self.session, SessionKind.WORKER, "hand", "here", 1, tasks=tasks)
        self._tasks = self.store.register(new).tasks
        self._seq = 0

    def exchange(self, *settlements: Settlement, room: int = 100) -> Exchanged:
        self._seq += 1
        pool = Pool(self._tasks, {ANY_QUEUE: room}, room)
        return self.store.exchange(self.session, self._seq, settlements, Want((pool,)))
