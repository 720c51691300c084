"""The store cannot be reached: nothing is lost, doubled or pretended, and nobody spins."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from lifecycle.app import app
from lifecycle.network import LONG, Net, assert_untouched, net, request_of
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, wall_of
from lifecycle.processes import command
from lifecycle.recorder import boottime
from lifecycle.tasks import quick, steady, steady_sync
from lifecycle.tree import Part, Settings, Worker

from limpet import StoreUnreachable
from limpet.domain.cause import WorkerVanished
from limpet.domain.event import EventName
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.maintenance.sweeper import recover_all
from limpet.storage.registry import open_store

pytestmark = pytest.mark.timeout(120)

KINDS = ("redis", "postgres", *(("valkey",) if LONG else ()))
# As the store counts it: per second, after the first one.
MOST_ATTEMPTS = 5
MOST_CPU = 0.02
ENDING_JOBS, LATE_JOBS = 20, 500
VANISHED = WorkerVanished(last_seen=0)


@pytest.fixture(params=KINDS)
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


def cpu_seconds(pid: int) -> float:
    """How long a process has kept a core busy."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """What a worker's supervisor does during an outage: the work it makes, whom it calls."""

    def __init__(self, some: Net, worker: Worker) -> None:
        self._some = some
        self._pid = worker.only(Part.SUPERVISOR).pid
        self.began = time.monotonic()
        self._busy = cpu_seconds(self._pid)

    def assert_calm(self) -> None:
        seconds = time.monotonic() - self.began
        busy = cpu_seconds(self._pid) - self._busy
        assert busy <= MOST_CPU * seconds + 0.05, f"{busy} s in {seconds} s"
        tries = self._some.proxy.attempts_since(self.began + 1)
        assert tries / (seconds - 1) < MOST_ATTEMPTS, f"{tries} tries in {seconds - 1} s"


def enqueue_by(url: str, number: int) -> None:
    """As a client elsewhere does."""
    with closing(open_store(url)) as store:
        store.enqueue([NewJob(f"{number:026d}", "quick", '{"number": 7}')])


def lose_replies(some: Net, place: Place) -> None:
    """Three verbs are done by the server, and nobody hears of it."""
    for verb in ("exchange", "renew"):
        some.proxy.lose_reply_to(request_of(some.kind, verb))
        assert quick.enqueue(number=7).result(timeout="20s") == 7
        assert some.proxy.lost.wait(10), f"no {verb}"
    some.proxy.lose_reply_to(request_of(some.kind, "enqueue"))
    with pytest.raises(StoreUnreachable):
        enqueue_by(place.way, 1)
    assert some.proxy.lost.is_set()
    enqueue_by(place.way, 1)


def test_a_store_that_is_not_there_at_first_and_is_gone_for_a_while(some: Net) -> None:
    """A worker waits for it. What runs goes on, and what ends meanwhile is told on return, once."""
    place = some.place
    some.proxy.refuse()
    worker = place.begin_worker(settings=Settings(lease=10.0, async_jobs=ENDING_JOBS + 1))
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        enqueue_by(place.way, 0)
    place.until(lambda: "waiting for the store" in worker.log, said="it says that it waits")
    assert place.store.job(f"{0:026d}") is None
    some.proxy.pass_on()
    session = place.session(worker).id
    lose_replies(some, place)

    going_on: list[Handle] = [steady_sync.enqueue(word="over"), steady.enqueue(word="over")]
    ending: list[Handle] = app.enqueue_many([steady.call(word="soon") for _ in range(ENDING_JOBS)])
    place.until_begun(*going_on, *ending)
    place.until_known(*going_on)
    some.proxy.refuse()
    watch = Watch(some, worker)
    place.say("soon")
    # What it must remember is bounded by its places: it takes no others meanwhile.
    late: list[Handle] = app.enqueue_many([quick.call(number=7) for _ in range(LATE_JOBS)])
    time.sleep(5 if LONG else 3)
    watch.assert_calm()
    states = place.store.states([job.id for job in (*going_on, *ending)])
    assert set(states.values()) == {State.RUNNING}
    assert set(place.store.states([job.id for job in late]).values()) == {State.READY}
    some.proxy.pass_on()
    place.until_final([*ending, *late])
    place.say("over")
    place.until_final(going_on)
    assert_untouched(place, *going_on, *ending)
    assert place.session(worker).id == session
    assert not place.unfinished()
    assert_no_orphans(place)


def has_ended(place: Place, job: Handle) -> bool:
    """Whether the task itself is at its end."""
    return any(each.job == job.id and each.kind == "end" for each in place.records())


@pytest.mark.parametrize("how", ["hang", *(["refuse"] if LONG else [])])
def test_a_store_that_is_gone_for_longer_than_the_lease(some: Net, how: str) -> None:
    """Everything is dead before the lease is over; what had ended by then counts, unless the
    session was ended meanwhile, and then the job runs again.
    """
    place = some.place
    lease = 5.0 if LONG else 4.0
    worker = place.worker(settings=Settings(lease=lease))
    running: list[Handle] = [steady_sync.enqueue(word="over", child=True)]
    running.append(steady.enqueue(word="over"))
    done: Handle = steady.enqueue(word="soon")
    place.until_begun(*running, done)
    place.until_known(*running, done)
    old = place.session(worker).id
    swept = some.kind != "redis"
    if how == "hang":
        some.proxy.hang()
    else:
        some.proxy.refuse()
    watch = Watch(some, worker)
    renewed = place.session(worker).renewed_at / 1e6
    place.say("soon")
    place.until(lambda: has_ended(place, done), said="it has ended")
    time.sleep(10 if LONG else lease + 1)
    watch.assert_calm()
    if swept:  # by a worker that can reach the store
        place.store.end(old, VANISHED)
        assert recover_all(place.store, old, VANISHED) == 3
    since = boottime()
    some.proxy.pass_on()
    place.until_begun(*running, times=2)
    assert place.session(worker, not_=old).id != old
    place.say("over")
    place.until_final([*running, done])
    for job in running:
        first, second = place.attempts(job)
        assert wall_of(first.last) < renewed + lease
        assert since < second.first
        assert place.job(job).counters == (0, swept, 0)
    if swept:
        assert len(place.attempts(done)) == 2
        assert place.events(done, EventName.LEASE_LOST)
    else:
        assert_untouched(place, done)
    assert_no_orphans(place)


_SLOW_DRIVER = """
import os, sys, time
if {where!r} in " ".join(sys.orig_argv):
    time.sleep({seconds})
del sys.modules["redis"]
sys.path[:] = [each for each in sys.path if each not in ("", os.getcwd())]
import redis
"""


def test_a_driver_that_is_slow_to_import_stops_no_worker(request: pytest.FixtureRequest) -> None:
    """As on a busy machine: the supervisor may not stand still for a fourth of the lease."""
    with net("redis", request) as some:
        place, lease = some.place, 2.0
        slow = _SLOW_DRIVER.format(where="supervisor", seconds=lease / 2)
        (place.folder / "redis.py").write_text(slow)
        worker = place.worker(settings=Settings(lease=lease))
        assert quick.enqueue(number=7).result(timeout="20s") == 7
        assert "ended with" not in worker.log
        assert_no_orphans(place)


def notices(place: Place) -> list[int]:
    return [
        each.pid
        for each in place.living()
        if "limpet.worker.supervisor.death_notice" in command(each.pid)
    ]


def test_a_notice_that_is_slow_to_start_keeps_no_neighbour_from_finding_out(
    request: pytest.FixtureRequest,
) -> None:
    """On a busy machine the program that tells of a death takes seconds to begin."""
    with net("redis", request) as some:
        place, patience = some.place, 6.0
        slow = _SLOW_DRIVER.format(where="worker.notice", seconds=patience)
        (place.folder / "redis.py").write_text(slow)
        # So long that it is not the lease that tells.
        settings = Settings(lease=20.0)
        worker = place.worker(settings=settings)
        job: Handle = steady.enqueue(word="over")
        place.until_begun(job)
        place.until_known(job)
        place.worker(settings=settings)
        killed = time.time()
        worker.signal(signal.SIGKILL, worker.only(Part.SUPERVISOR).pid)
        place.until_begun(job, times=2)
        place.say("over")
        place.until_final([job])
        (loss,) = place.losses(job)
        assert loss.at / 1e6 - killed < patience
        assert place.job(job).counters == (0, 1, 0)
        place.until(lambda: not notices(place), said="the notice has come to its end")
        assert_no_orphans(place)
