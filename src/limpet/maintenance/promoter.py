"""Makes scheduled jobs ready when they are due, and drops what came too late."""

from limpet.storage.contract.store import SweepVerbs


class Promoter:
    """Promotes what is due; `run` says when to come again."""

    def __init__(self, store: SweepVerbs) -> None:
        self._store = store

    def run(self) -> int | None:
        """Promote everything that is due; the answer is the wall time of the next, or None."""
        while True:
            step = self._store.promote()
            if not step.more:
                return step.next_due
