"""What the jobs of a storm are, and what must be true of them beside what is of every job."""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise

from lifecycle.app import app
from lifecycle.intervals import Attempt, attempts
from lifecycle.orphans import all_jobs
from lifecycle.place import Place
from lifecycle.tasks import gathers, steady, steady_sync

from limpet import Call
from limpet.domain.job import Job

# Every so many jobs run in a lane, and every other of those has a subprocess.
LANE_EVERY, CHILD_EVERY = 5, 10


class Work(ABC):
    """Jobs to be handed in before the storm, and judged after it."""

    def at_once(self, slots: int) -> int:
        """How many of them can run at a time, in so many places."""
        return slots

    @abstractmethod
    def hand_in(self, jobs: int, mean_seconds: float, chance: random.Random) -> int:
        """Hand them in; the answer says how many jobs there are now."""

    def result_of(self, job: Job) -> str:
        """What the job must have as its result."""
        return str(job.token)

    def troubles(self, place: Place) -> list[str]:
        """Everything else that is wrong, one sentence each."""
        return []


def call(number: int, mean_seconds: float, chance: random.Random, key: str | None = None) -> Call:
    """One of many jobs: most on a loop, some in a lane, some of those with a subprocess."""
    seconds = mean_seconds * chance.uniform(0.2, 1.8)
    if number % LANE_EVERY == 0:
        child = number % CHILD_EVERY == 0
        return steady_sync.using(key=key).call(seconds=seconds, child=child)
    return steady.using(key=key).call(seconds=seconds)


class Plain(Work):
    """Jobs that have nothing to do with each other."""

    def hand_in(self, jobs: int, mean_seconds: float, chance: random.Random) -> int:
        app.enqueue_many([call(number, mean_seconds, chance) for number in range(jobs)])
        return jobs


class Keyed(Work):
    """Jobs on some keys: never two of a key at once, and those of a key in order."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def at_once(self, slots: int) -> int:
        return min(slots, self._keys)

    def hand_in(self, jobs: int, mean_seconds: float, chance: random.Random) -> int:
        app.enqueue_many(
            [
                call(number, mean_seconds, chance, f"k{number % self._keys}")
                for number in range(jobs)
            ]
        )
        return jobs

    def troubles(self, place: Place) -> list[str]:
        by_job = attempts(place.records())
        by_key: dict[str, list[Attempt]] = {}
        for job in all_jobs(place):
            by_key.setdefault(str(job.key), []).extend(by_job.get(job.id, ()))
        found = [each for key, runs in by_key.items() for each in self.of_key(key, runs)]
        if len(by_key) != self._keys:
            found.append(f"there are {len(by_key)} keys, not {self._keys}")
        return found

    @staticmethod
    def of_key(key: str, runs: list[Attempt]) -> Iterator[str]:
        """What is wrong with the attempts of one key."""
        for before, after in pairwise(sorted(runs, key=lambda each: each.first)):
            if before.meets(after):
                yield f"{before.job} and {after.job} of key {key} ran at once"
            if after.job < before.job:  # ids sort by the order in which they were handed in
                yield f"{after.job} of key {key} ran after {before.job}, which came later"


class Flow(Work):
    """The children of one job, which runs after them, once, and finds all their results."""

    def hand_in(self, jobs: int, mean_seconds: float, chance: random.Random) -> int:
        children = [call(number, mean_seconds, chance) for number in range(jobs)]
        self._parent = app.flow(gathers.call(), children).id
        return jobs + 1

    def result_of(self, job: Job) -> str:
        return str(job.result if job.id == self._parent else job.token)

    def troubles(self, place: Place) -> list[str]:
        parent = place.store.job(self._parent)
        assert parent is not None, "the parent is lost"
        runs = attempts(place.records())
        before = [each for job, them in runs.items() if job != self._parent for each in them]
        mine = runs.get(self._parent, [])
        found = []
        if len(mine) != 1 + parent.counters.orphans:
            found.append(f"the parent ran {len(mine)} times, and was lost {parent.counters}")
        if any(each.last > mine[0].first for each in before):
            found.append("the parent ran before all its children were over")
        tokens = sorted(job.token for job in all_jobs(place) if job.parent == self._parent)
        if sorted(json.loads(parent.result or "[]")) != tokens:
            found.append("the parent did not find the results of all its children")
        return found
