"""What the lifecycle tests rely on to find trouble is shown to find it."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import apsw
from lifecycle.app import app
from lifecycle.heartbeat import Heartbeat
from lifecycle.intervals import Attempt, start_daemon
from lifecycle.orphans import assert_no_orphans, troubles
from lifecycle.place import Handle, Place
from lifecycle.processes import (
    alive,
    belonging,
    below,
    command,
    end,
    everything,
    inner_pid,
    look,
    send,
    turn_holder,
)
from lifecycle.recorder import Recorder
from lifecycle.tasks import quick
from lifecycle.tree import MARK
from lifecycle.work import Keyed

from limpet.domain.cause import WorkerKilled
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
PARENT = [
    sys.executable, "-S", "-c",
    "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'input()'])",
]  # fmt: skip


def eventually(what: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.01)


# -- processes


def test_a_process_is_seen_with_its_parent_and_its_state() -> None:
    with subprocess.Popen(SLEEP) as child:
        found = look(child.pid)
        assert found is not None
        assert (found.parent, inner_pid(child.pid)) == (os.getpid(), child.pid)
        send(child.pid, signal.SIGSTOP)
        eventually(lambda: (it := look(child.pid)) and it.stopped)
        child.kill()
        # Dead and not yet reaped is not alive.
        eventually(lambda: not alive(child.pid))
    assert not send(child.pid, signal.SIGCONT)


def test_descendants_are_found_below_their_root() -> None:
    with subprocess.Popen(PARENT, stdin=subprocess.PIPE) as parent:
        eventually(lambda: len(below(parent.pid)) == 2)
        assert below(parent.pid)[0].pid == parent.pid
        assert below(parent.pid)[1].parent == parent.pid


def test_a_marked_process_belongs_to_its_test_and_is_ended(one_place: Place) -> None:
    place = one_place
    environment = {**os.environ, MARK: place.mark}
    with subprocess.Popen(SLEEP, env=environment) as mine, subprocess.Popen(SLEEP) as other:
        eventually(lambda: [each.pid for each in place.living()] == [mine.pid])
        assert any("alive: " in each for each in troubles(place))
        end(place.living)
        assert not alive(mine.pid)
        assert alive(other.pid)
        other.kill()
    assert_no_orphans(place)


def test_a_daemon_without_an_environment_is_found_by_its_file(one_place: Place) -> None:
    place = one_place
    with closing(Recorder(place.records_file, "j", 1)) as recorder:
        start_daemon(recorder, 20, bare=True)
    (daemon,) = place.living()
    assert [each.pid for each in belonging((MARK, "another"), place.folder)] == [daemon.pid]
    assert "daemon-itself" in command(daemon.pid)
    end(place.living)
    assert daemon.pid not in everything()
    assert_no_orphans(place)


def test_who_holds_a_lock_is_told_by_the_kernel(one_place: Place) -> None:
    file = one_place.folder / "lock"
    file.touch()
    assert turn_holder(file) is None
    with file.open() as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        assert turn_holder(file) == os.getpid()
    assert turn_holder(file) is None
    assert_no_orphans(one_place)


# -- the end of every test


def claimed(place: Place, count: int = 1) -> tuple[str, list[Lease]]:
    """Jobs held by a session that this process plays."""
    session = app.client.ids.new()
    new = NewSession(
        session, SessionKind.WORKER, "hand", "here", 1, timedelta(seconds=30), frozenset({"quick"})
    )
    pool = Pool(place.store.register(new).tasks, {ANY_QUEUE: count}, count)
    for _ in range(count):
        quick.enqueue()
    jobs = place.store.exchange(session, 1, (), Want((pool,))).claimed
    assert len(jobs) == count
    return session, [job.lease for job in jobs]


def test_a_job_without_an_end_is_trouble(one_place: Place) -> None:
    job: Handle = quick.enqueue()
    assert any(f"job {job.id} (quick) is ready" in each for each in troubles(one_place))
    job.cancel()
    assert_no_orphans(one_place)


def test_a_job_that_runs_under_a_dead_session_is_trouble(one_place: Place) -> None:
    place = one_place
    session, leases = claimed(place)
    assert not any("which is dead" in each for each in troubles(place))
    place.store.end(session, WorkerKilled(9))
    assert any("which is dead" in each for each in troubles(place))
    place.store.recover(session)
    place.store.cancel(leases[0].job)
    assert_no_orphans(place)


def test_a_second_end_is_trouble(one_place: Place) -> None:
    place = one_place
    session, (lease,) = claimed(place)
    place.store.exchange(session, 2, [Complete(lease)])
    assert troubles(place) == []
    plant = "INSERT INTO limpet_event (n, at, event) SELECT n, 1, 'failed' FROM limpet_job"
    with closing(apsw.Connection(str(place.folder / "jobs.db"))) as connection:
        connection.execute(plant)
    assert any("has 2 ends in 1 rounds" in each for each in troubles(place))
    place.judged = True


def test_an_overlap_or_a_second_begin_in_the_records_is_trouble(one_place: Place) -> None:
    place = one_place
    with closing(Recorder(place.records_file, "j", 1)) as first:
        first.write("begin")
        with closing(Recorder(place.records_file, "j", 2)) as second:
            second.write("begin")
            first.write("begin")
    found = troubles(place)
    assert any("token 2 began while token 1 went on" in each for each in found)
    assert any("began 2 times under token 1" in each for each in found)
    place.judged = True


# -- the heartbeat


def test_a_late_renewal_is_measured(one_place: Place) -> None:
    place = one_place
    session, leases = claimed(place)
    with Heartbeat(place.store) as heart:
        for pause in (0.1, 0.1, 0.6, 0.1):
            place.store.renew(session)
            time.sleep(pause)
        place.store.renew(session)
        time.sleep(0.1)
    assert 0.5 <= heart.latest(session, 0.1) < 1.0
    assert len(heart.beats(session)) >= 5
    with contextlib.suppress(IndexError):
        place.store.exchange(session, 2, [Complete(leases[0])])
    assert_no_orphans(place)


# -- work


def test_two_of_a_key_at_once_and_out_of_order_are_found() -> None:
    def ran(job: str, first: int, last: int) -> Attempt:
        return Attempt(job, 1, first, last, "job", 1, 1)

    def found(*runs: Attempt) -> list[str]:
        return list(Keyed.of_key("k", list(runs)))

    assert found(ran("a", 0, 5), ran("a", 6, 8), ran("b", 9, 12)) == []
    assert found(ran("a", 0, 5), ran("b", 5, 8)) == ["a and b of key k ran at once"]
    assert found(ran("a", 0, 5), ran("b", 6, 7), ran("a", 8, 9)) == [
        "a of key k ran after b, which came later"
    ]
