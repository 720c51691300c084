"""What shapes the work, in the model: after the moves of a step, everything that follows from them.

Written from the docstring of `limpet.storage.contract.shaping`. Nothing is kept but what the jobs
say of themselves, so that whatever order a store has for it, this is where it must arrive.
"""

from collections.abc import Callable, Iterable

from contract.model_rows import ModelJob

from limpet.domain.job import NewJob
from limpet.domain.rules import ChildFailure
from limpet.domain.state import FINAL, State

CHILDREN = "children:"


class Shape:
    """Keys, uniques and families among the jobs of a model."""

    def __init__(self, jobs: dict[str, ModelJob], wall: Callable[[], int]) -> None:
        self._jobs = jobs
        self._wall = wall
        self._uniques: dict[tuple[str, str | None], str] = {}

    def ready(self, job: ModelJob) -> None:
        """It would become ready; with a key it asks for a turn, which `follow` gives."""
        asks = job.new.key is not None and not job.turn
        job.state = State.BLOCKED if asks else State.READY
        job.waits = f"key:{job.new.key}" if asks else None

    def holder(self, new: NewJob) -> str | None:
        """Who holds the unique, if somebody does who is not the job itself."""
        id_ = self._uniques.get((new.task, new.unique))
        held = id_ in self._jobs and self._jobs[id_].state not in FINAL
        return id_ if new.unique is not None and held and id_ != new.id else None

    def hold(self, new: NewJob) -> None:
        if new.unique is not None:
            self._uniques[new.task, new.unique] = new.id

    def lacks_parent(self, jobs: Iterable[NewJob]) -> bool:
        """Whether one names a parent that is neither among them nor waits for children."""
        waiting = {id_ for id_, job in self._jobs.items() if job.waits == CHILDREN}
        new = {job.id: job for job in jobs if job.id not in self._jobs}
        waiting |= {job.id for job in new.values() if job.rules and job.rules.children}
        return any(job.parent is not None and job.parent not in waiting for job in new.values())

    def pruned_apart_from(self, job: ModelJob) -> bool:
        """Whether nobody waits for the job's result any more."""
        above = self._jobs.get(job.new.parent or "")
        return above is None or above.state in FINAL

    def follow(self) -> None:
        """Let parents be counted down, descendants stopped and turns given."""
        while self._count_down() or self._stop():
            pass
        for job in self._jobs.values():
            keeps = job.state in (State.READY, State.RUNNING) or (
                job.state is State.SCHEDULED and job.rules.key_strict
            )
            job.turn = job.turn and keeps
        for key in sorted({job.new.key for job in self._jobs.values() if job.new.key}):
            self._give(key)

    def _count_down(self) -> bool:
        moved = False
        for id_, job in self._jobs.items():
            if job.told or job.state not in FINAL:
                continue
            job.told = moved = True
            above = self._jobs.get(job.new.parent or "")
            if above is None or above.waits != CHILDREN:
                continue
            failed = job.state is not State.SUCCEEDED
            if failed and job.rules.child_failure is ChildFailure.FAIL:
                above.finish(State.FAILED, self._wall())
            else:
                above.pending -= 1
                if above.pending == 0:
                    self.ready(above)
            assert id_ != above.new.id
        return moved

    def _stop(self) -> bool:
        gone = [id_ for id_, job in self._jobs.items() if job.gone]
        for job in self._jobs.values():
            if job.new.parent in gone and job.state is State.RUNNING:
                job.cancel_requested = True
            elif job.new.parent in gone and job.state not in FINAL:
                job.finish(State.CANCELLED, self._wall())
        for id_ in gone:
            self._jobs[id_].gone = False
        return bool(gone)

    def _give(self, key: str) -> None:
        line = [job for job in self._jobs.values() if job.waits == f"key:{key}"]
        turns = sum(job.turn for job in self._jobs.values() if job.new.key == key)
        for job in sorted(line, key=lambda job: job.place):
            if turns >= job.rules.key_limit:
                break
            turns += 1
            job.turn, job.state, job.waits = True, State.READY, None
