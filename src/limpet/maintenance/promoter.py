"""Makes scheduled jobs ready when they are due, and drops those that expired."""

from limpet.storage.contract.store import SweepVerbs


class Promoter:
    """Promotes what is due; `run` returns when to run it again."""

    def __init__(self, store: SweepVerbs) -> None:
        self._store = store

    def run(self) -> int | None:
        """Promote all due jobs; the answer is the wall time of the next due job, or None."""
        while True:
            step = self._store.promote()
            if not step.more:
                return step.next_due
