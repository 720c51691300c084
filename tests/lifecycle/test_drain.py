"""Asked to stop: what can finish does, the rest is handed over in time, and nobody pays."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from lifecycle.hostile import is_deaf, is_deaf_in_its_loop
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import START_SECONDS, Handle, Place, allowance, wall_of
from lifecycle.tasks import steady, steady_sync
from lifecycle.tree import PARTS, Settings, Worker

from limpet.domain.cause import Drained, WorkerVanished
from limpet.domain.event import EventName
from limpet.domain.session import SessionState
from limpet.domain.state import State
from limpet.maintenance.sweeper import recover_all

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

# Longer than the lease, so that a session that stopped renewing would be found dead.
DRAIN_SECONDS = 3.5
LEASE_SECONDS = 2.5
HANDED_OVER_AFTER_SECONDS = 1.0
EXIT_AFTER_SECONDS = 3.0
SETTINGS = Settings(lease=LEASE_SECONDS, drain=DRAIN_SECONDS, lanes=3)
# A signal that was taken for a second one would have ended everything by then.
HEARD_AFTER_SECONDS = 0.5
# Where nobody is there who could find the session dead.
SHORT_DRAIN_SECONDS = 2.5


def assert_uncharged(place: Place, *jobs: Handle) -> None:
    for job in jobs:
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)


def _to_import(place: Place) -> float:
    """Executors that are spawned import the app first, several of them at once."""
    return 1.0 if place.mode is Mode.SPAWN else 0.0


def test_a_job_longer_than_the_drain_is_handed_over_at_its_deadline(place: Place) -> None:
    """Although the jobs ignore everything that they are told."""
    worker = place.worker(settings=SETTINGS)
    hearing: list[Handle] = [steady.enqueue(word="over"), steady_sync.enqueue(word="over")]
    deaf: list[Handle] = [is_deaf.enqueue(word="over"), is_deaf_in_its_loop.enqueue(word="over")]
    short: list[Handle] = [steady.enqueue(word="soon"), steady_sync.enqueue(word="soon")]
    place.until_begun(*hearing, *deaf, *short)
    place.worker(settings=SETTINGS)
    told = time.time()
    worker.signal(signal.SIGTERM)
    place.say("soon")
    place.until_final(short, DRAIN_SECONDS)
    late: Handle = steady.enqueue(seconds=0.1)
    place.until_final([late], DRAIN_SECONDS)
    assert worker.popen.poll() is None
    code = worker.wait(DRAIN_SECONDS + EXIT_AFTER_SECONDS + allowance())
    exited = time.time() - told
    assert code is not None, "it does not exit"
    assert exited <= DRAIN_SECONDS + EXIT_AFTER_SECONDS + allowance()
    place.until_begun(*hearing, *deaf, times=2)
    place.say("over")
    place.until_final([*hearing, *deaf])
    assert_uncharged(place, *hearing, *deaf, *short, late)
    deadline = told + DRAIN_SECONDS
    for job in [*hearing, *deaf]:
        first, second = place.attempts(job)
        assert first.last < second.first
        assert wall_of(first.last) >= deadline - HANDED_OVER_AFTER_SECONDS, "stopped too early"
        started = wall_of(second.first) - deadline
        assert started <= HANDED_OVER_AFTER_SECONDS + _to_import(place) + allowance()
        released = [event.cause for event in place.events(job, EventName.RELEASED)]
        assert released.count(Drained()) == 1
    for job in [*short, late]:
        assert len(place.attempts(job)) == 1
    assert_no_orphans(place)


def test_a_second_signal_hands_over_at_once(place: Place) -> None:
    worker = place.worker(settings=Settings(drain=60.0))
    jobs: list[Handle] = [is_deaf.enqueue(word="over"), steady.enqueue(word="over")]
    place.until_begun(*jobs)
    worker.signal(signal.SIGTERM)
    time.sleep(HEARD_AFTER_SECONDS)
    assert worker.popen.poll() is None
    worker.signal(signal.SIGTERM)
    assert worker.wait(EXIT_AFTER_SECONDS + allowance()) is not None, "it does not exit"
    assert [place.job(job).state for job in jobs] == [State.READY] * 2
    place.say("over")
    place.worker()
    place.until_final(jobs)
    assert_uncharged(place, *jobs)
    assert_no_orphans(place)


def ctrl_c(worker: Worker) -> None:
    """As a terminal sends it: to every process of the group."""
    os.killpg(worker.pid, signal.SIGINT)


def group_wide_term(worker: Worker) -> None:
    """As a service manager sends it: to every process of the worker, wherever it is."""
    pids = [each.pid for each in worker.processes() if each.comm in PARTS]
    worker.signal(signal.SIGTERM, *pids)


@pytest.mark.one_store
@pytest.mark.parametrize("stop", [ctrl_c, group_wide_term])
def test_ctrl_c_and_a_group_wide_sigterm_charge_nobody(
    place: Place, stop: Callable[[Worker], None]
) -> None:
    worker = place.worker(settings=replace(SETTINGS, drain=SHORT_DRAIN_SECONDS))
    short: list[Handle] = [
        steady.enqueue(word="soon"),
        steady_sync.enqueue(word="soon", child=stop is ctrl_c),
    ]
    long: list[Handle] = [steady.enqueue(word="over"), steady_sync.enqueue(word="over")]
    place.until_begun(*short, *long)
    stop(worker)
    time.sleep(HEARD_AFTER_SECONDS)
    # One request to stop, however many processes heard it: the drain goes on.
    assert worker.popen.poll() is None
    assert [place.job(job).state for job in [*short, *long]] == [State.RUNNING] * 4
    place.say("soon")
    place.until_final(short, SHORT_DRAIN_SECONDS)
    assert worker.wait(SHORT_DRAIN_SECONDS + EXIT_AFTER_SECONDS + allowance()) is not None, (
        "it does not exit"
    )
    assert [place.job(job).state for job in long] == [State.READY] * 2
    place.say("over")
    place.worker()
    place.until_final(long, START_SECONDS)
    assert_uncharged(place, *short, *long)
    for job in short:
        assert len(place.attempts(job)) == 1
    assert_no_orphans(place)


def begin_to_drain(place: Place, worker: Worker) -> str:
    """Ask it to stop; the answer is its session, once the store knows."""
    session = place.session(worker).id
    worker.signal(signal.SIGTERM)
    place.until(
        lambda: [
            each
            for each in place.store.sessions()
            if (each.id, each.state) == (session, SessionState.DRAINING)
        ],
        said="the session drains",
    )
    return session


def test_a_session_that_is_swept_during_its_drain_ends_and_doubles_nothing(
    one_place: Place,
) -> None:
    """What its jobs say after that counts for nothing."""
    place = one_place
    worker = place.worker(settings=Settings(lease=LEASE_SECONDS, drain=60.0, lanes=3))
    long: list[Handle] = [
        steady.enqueue(word="over"), steady_sync.enqueue(word="over", child=True),
        is_deaf.enqueue(word="over"), is_deaf_in_its_loop.enqueue(word="over"),
    ]  # fmt: skip
    late: Handle = steady.enqueue(word="late")
    everyone = [*long, late]
    place.until_begun(*everyone)
    place.until_role("subprocess", long[1])
    place.until_known(*everyone)
    session = begin_to_drain(place, worker)
    cause = WorkerVanished(last_seen=0)
    place.store.end(session, cause)
    assert recover_all(place.store, session, cause) == len(everyone)
    place.say("late")
    assert worker.wait(LEASE_SECONDS / 5 + EXIT_AFTER_SECONDS + allowance()) is not None, worker.log
    exited = time.time()
    assert "the store answered that the session is dead" in worker.log
    assert [place.job(job).state for job in everyone] == [State.READY] * len(everyone)

    place.worker(settings=SETTINGS)
    place.until_begun(*everyone, times=2)
    place.say("over")
    place.until_final(everyone)
    for job in everyone:
        first, second = place.attempts(job)
        assert wall_of(first.last) < exited < wall_of(second.first)
        assert (place.job(job).state, place.job(job).result) == (
            State.SUCCEEDED, str(second.token),
        )  # fmt: skip
        (loss,) = place.losses(job)
        assert loss.cause == cause
        assert place.job(job).counters == (0, 1, 0)
    assert_no_orphans(place)


@pytest.mark.of_sqlite
def test_a_drain_ends_in_time_though_the_store_answers_nobody(one_place: Place) -> None:
    """The lease runs out meanwhile, and the session is over against its will; nobody pays."""
    place = one_place
    drain = 2.0
    worker = place.worker(settings=Settings(lease=LEASE_SECONDS, drain=drain))
    jobs: list[Handle] = [steady.enqueue(word="over"), is_deaf.enqueue(word="over")]
    place.until_begun(*jobs)
    place.until_known(*jobs)
    begin_to_drain(place, worker)
    told = time.time()
    with place.store_that_answers_nobody():
        assert worker.wait(drain + EXIT_AFTER_SECONDS + allowance()) is not None, worker.log
        assert time.time() - told <= drain + EXIT_AFTER_SECONDS + allowance()
    place.worker(settings=SETTINGS)
    place.until_begun(*jobs, times=2)
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        first, second = place.attempts(job)
        assert first.last < second.first
    assert_uncharged(place, *jobs)
    assert "has not answered" not in worker.log, "it asks executors that it has ended"
    assert_no_orphans(place)
