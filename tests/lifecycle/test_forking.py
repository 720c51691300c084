"""No process more may be started, or the one that starts them is deaf: every job still ends."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from lifecycle.app import app
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance
from lifecycle.processes import alive, send
from lifecycle.tasks import quick_sync, steady, steady_sync
from lifecycle.tree import EXECUTORS, Part, Settings

from limpet.domain.cause import WorkerFrozen
from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

# How long a zygote may leave a question unanswered; it is asked four times as often.
DEAF_SECONDS = 1.0
# More than are started before, also where some start slowly and others are started instead.
LANES = 6
_SET_LIMIT = """
import resource, sys
pid, soft = map(int, sys.argv[1:])
most = resource.prlimit(pid, resource.RLIMIT_NPROC)[1]
resource.prlimit(pid, resource.RLIMIT_NPROC, (most if soft < 0 else soft, most))
"""


@contextmanager
def that_may_not_fork(place: Place, pid: int) -> Iterator[None]:
    """Let a process start no other, because its user has too many by then."""

    def allow(count: int) -> None:
        # As the same user: another one would need a privilege that few containers give.
        command = [
            *place.mode.wrapper,
            sys.executable,
            "-I",
            "-c",
            _SET_LIMIT,
            str(pid),
            str(count),
        ]
        subprocess.run(command, check=True, cwd="/")

    allow(1)
    try:
        yield
    finally:
        allow(-1)


def begun_pair(place: Place) -> list[Handle]:
    """A job in a lane, with a subprocess, and one in a loop, both running until the word."""
    in_lane: Handle = steady_sync.enqueue(word="over", child=True)
    in_loop: Handle = steady.enqueue(word="over")
    place.until_begun(in_lane, in_loop)
    place.until_role("subprocess", in_lane)
    place.until_known(in_lane, in_loop)
    return [in_lane, in_loop]


@pytest.mark.modes(Mode.NON_ROOT)
def test_a_zygote_that_may_not_fork_keeps_nobody_from_working(place: Place) -> None:
    """Not those who run, and not the lane that is free; the others start when they can."""
    worker = place.worker(settings=Settings(lanes=LANES))
    both: list[Handle] = [steady_sync.enqueue(word="warm") for _ in range(2)]
    place.until_begun(*both)
    place.say("warm")
    place.until_final(both)
    long = begun_pair(place)
    old = place.session(worker).id
    with that_may_not_fork(place, worker.only(Part.ZYGOTE).pid):
        began = time.monotonic()
        # All at once, so that more are claimed than there are lanes.
        jobs: list[Handle] = app.enqueue_many([quick_sync.call(number=n) for n in range(30)])
        place.until_final(jobs)
        took = time.monotonic() - began
        place.until(lambda: "it could not be forked" in worker.log, said="the log says why")
        # The lanes that are there do their work: they must not rest because others cannot start.
        assert took <= 2.0 + allowance(), f"{took:.1f} s for {len(jobs)} jobs"
        more: list[Handle] = [steady_sync.enqueue(word="over") for _ in range(LANES - 1)]
        place.until(lambda: any(map(place.attempts, more)), said="one of them begins")
        assert not all(map(place.attempts, more))
    place.until_begun(*more)
    place.say("over")
    # It waits longer each time, and says so once for all that it tried together.
    assert worker.log.count("it could not be forked") <= 8
    everyone = [*long, *jobs, *more]
    place.until_final(everyone)
    for job in everyone:
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)
    for job in [*long, *more]:
        assert len(place.attempts(job)) == 1
    assert place.session(worker).id == old
    assert_no_orphans(place)


def test_a_deaf_zygote_is_ended_and_its_jobs_run_again(one_place: Place) -> None:
    """One that stands still for a moment is left alone."""
    place = one_place
    worker = place.worker()
    jobs = begun_pair(place)
    old = place.session(worker).id
    zygote = worker.only(Part.ZYGOTE).pid
    send(zygote, signal.SIGSTOP)
    time.sleep(DEAF_SECONDS / 3)
    send(zygote, signal.SIGCONT)
    time.sleep(DEAF_SECONDS)
    assert [place.losses(job) for job in jobs] == [[], []]

    frozen = time.time()
    send(zygote, signal.SIGSTOP)
    place.until_begun(*jobs, times=2)
    assert not alive(zygote)
    assert place.session(worker).id != old
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        (loss,) = place.losses(job)
        assert isinstance(loss.cause, WorkerFrozen), loss.cause
        assert loss.at / 1e6 - frozen <= DEAF_SECONDS + allowance()
        first, second = place.attempts(job)
        assert first.last < second.first
        assert (place.job(job).state, place.job(job).result) == (
            State.SUCCEEDED, str(second.token),
        )  # fmt: skip
        # Nobody's own doing.
        assert place.job(job).counters == (0, 1, 0)
    assert_no_orphans(place)


@pytest.mark.modes(Mode.NON_ROOT)
def test_a_guardian_that_may_not_fork_tries_until_it_can(place: Place) -> None:
    worker = place.worker()
    jobs = begun_pair(place)
    with that_may_not_fork(place, worker.pid):
        send(worker.only(Part.SUPERVISOR).pid, signal.SIGKILL)
        place.until(lambda: "a supervisor cannot start" in worker.log, said="the log says why")
        place.until(lambda: not any(map(worker.part, EXECUTORS)), said="all runs are ended")
        assert worker.popen.poll() is None
    place.until_begun(*jobs, times=2)
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        first, second = place.attempts(job)
        assert first.last < second.first
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 1, 0)
    assert_no_orphans(place)


@pytest.mark.modes(Mode.NON_ROOT)
def test_a_guardian_that_cannot_start_anything_can_be_stopped(place: Place) -> None:
    worker = place.worker()
    with that_may_not_fork(place, worker.pid):
        send(worker.only(Part.SUPERVISOR).pid, signal.SIGKILL)
        place.until(lambda: "a supervisor cannot start" in worker.log, said="the log says why")
        worker.signal(signal.SIGTERM)
        # And now it could: but it was asked not to.
    assert worker.wait(3.0 + allowance()) == 1
    assert_no_orphans(place)
