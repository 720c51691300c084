"""SIGKILL to any process of a worker during a job: the job runs again, soon, and once."""

import signal
import time
from itertools import pairwise

import pytest
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance
from lifecycle.processes import send
from lifecycle.tasks import steady, steady_sync
from lifecycle.tree import EXECUTORS, ORDERS, Order, Part, Worker

from limpet.domain.state import State

EVERY_STORE = EVERY_MODE = True
pytestmark = pytest.mark.timeout(120)

# DESIGN section 4. A dead zygote is the death of its executors.
READY_AFTER_SECONDS: dict[Part, float] = {
    Part.LANE: 0.1,
    Part.LOOP: 0.1,
    Part.ZYGOTE: 0.1,
    Part.SUPERVISOR: 1.0,
    Part.GUARDIAN: 1.0,
}
TREE_READY_AFTER_SECONDS = 1.0


def begun_pair(place: Place, word: str) -> tuple[Handle, Handle]:
    """A job in a lane, with a subprocess, and one in a loop, both running until the word."""
    in_lane: Handle = steady_sync.enqueue(word=word, child=True)
    in_loop: Handle = steady.enqueue(word=word)
    place.until_begun(in_lane, in_loop)
    place.until_role("subprocess", in_lane)
    place.until_known(in_lane, in_loop)
    return in_lane, in_loop


def assert_lost_once(
    place: Place, job: Handle, killed: float, limit: float, *, tree: bool = False
) -> None:
    """Lost with its holder one time, and ready again within the limit.

    `tree`: signals to a whole tree come one after the other, and whoever has not yet got his may
    run the job once more in between: on a busy machine for long enough to be charged for it too.
    """
    loss = place.losses(job)[0]
    assert loss.cause is not None
    assert loss.at / 1e6 - killed <= limit + allowance(), str(loss.cause)
    first, *between, last = place.attempts(job)
    assert tree or not between
    for before, after in pairwise((first, *between, last)):
        assert before.last < after.first
    found = place.job(job)
    assert found.state is State.SUCCEEDED
    assert found.counters.failures == 0
    assert 1 <= found.counters.orphans <= 1 + len(between)
    assert found.result == str(last.token)


def assert_untouched(place: Place, job: Handle) -> None:
    found = place.job(job)
    assert found.state is State.SUCCEEDED
    assert found.counters == (0, 0, 0)
    assert len(place.attempts(job)) == 1


def assert_hook_ran_once(place: Place, *jobs: Handle) -> None:
    """Each orphaning was told to the hook once, under the new token, with a recorded cause."""
    notes = (place.folder / "hooks").read_text().splitlines()
    for job in jobs:
        causes = {event.cause.kind for event in place.losses(job) if event.cause is not None}
        told = [note.split()[1:] for note in notes if note.startswith(job.id)]
        after = [attempt.token for attempt in place.attempts(job)[1:]]
        # One that was killed again at once may not have come to its hook.
        assert {int(token) for token, _ in told} <= set(after)
        assert len(told) == len({token for token, _ in told}) >= 1
        assert str(after[-1]) in dict(told)
        assert {cause for _, cause in told} <= causes


def test_a_killed_executor_zygote_or_supervisor_costs_its_jobs_one_attempt(place: Place) -> None:
    worker = place.worker()
    for part in (Part.LANE, Part.LOOP, Part.ZYGOTE, Part.SUPERVISOR):
        in_lane, in_loop = jobs = begun_pair(place, part)
        hit = {Part.LANE: [in_lane], Part.LOOP: [in_loop]}.get(part, list(jobs))
        victim = (
            worker.outer(place.attempts(hit[0])[0].pid) if part in EXECUTORS else worker.only(part)
        )
        assert victim.comm == part
        killed = time.time()
        send(victim.pid, signal.SIGKILL)
        place.until_begun(*hit, times=2)
        place.say(part)
        place.until_final(jobs)
        for job in hit:
            assert_lost_once(place, job, killed, READY_AFTER_SECONDS[part])
            if part not in EXECUTORS:
                # Only a job whose own executor died alone gets a strike.
                assert place.job(job).counters.strikes == 0
        for job in set(jobs) - set(hit):
            assert_untouched(place, job)
        assert_hook_ran_once(place, *hit)
    assert_no_orphans(place)


def kill(worker: Worker, how: Order | None) -> float:
    """Kill everything in that order, or only the guardian; the answer is the wall time before."""
    if how is not None:
        return worker.kill_tree(how)
    before = time.time()
    send(worker.pid, signal.SIGKILL)
    return before


def test_a_killed_guardian_or_tree_is_noticed_by_a_neighbour(place: Place) -> None:
    """Each neighbour that took over is killed next."""
    # The order matters little where the kernel kills the namespace.
    orders = ORDERS if place.mode in (Mode.PLAIN, Mode.NON_ROOT) else ORDERS[:2]
    worker = place.worker()
    hows: list[Order | None] = [None, *orders]
    for how in hows:
        jobs = begun_pair(place, word := how or "guardian")
        neighbour = place.worker()
        killed = kill(worker, how)
        place.until_begun(*jobs, times=2)
        place.say(word)
        place.until_final(jobs)
        limit = TREE_READY_AFTER_SECONDS if how else READY_AFTER_SECONDS[Part.GUARDIAN]
        for job in jobs:
            assert_lost_once(place, job, killed, limit, tree=how is not None)
            # From the leaves it may be that an executor is seen to die alone.
            assert place.job(job).counters.strikes <= (how in ("from the leaves", "any"))
        assert_hook_ran_once(place, *jobs)
        place.until(lambda gone=worker: not gone.processes(), 2, f"{worker.name} is gone")  # type: ignore[misc]
        worker = neighbour
    assert_no_orphans(place)


def test_the_next_start_recovers_what_a_killed_tree_left(place: Place) -> None:
    worker = place.worker()
    jobs = begun_pair(place, "over")
    worker.kill_tree()
    # Its subprocess may live on here until somebody comes who looks after it.
    place.until(lambda: not any(map(worker.part, Part)), 5, f"{worker.name} is gone")
    # Between the first kill and the last a supervisor may have been quick to settle.
    assert {place.job(job).state for job in jobs} <= {State.RUNNING, State.READY}
    heir = place.worker()
    registered = place.session(heir).registered_at / 1e6
    place.until_begun(*jobs, times=2)
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        assert_lost_once(place, job, registered, TREE_READY_AFTER_SECONDS, tree=True)
    assert "recovered 2 orphaned jobs" in worker.log + heir.log
    assert_hook_ran_once(place, *jobs)
    assert_no_orphans(place)
