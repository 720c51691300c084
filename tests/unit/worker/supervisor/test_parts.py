"""The parts of the worker that can be looked at without a worker."""

import asyncio
import fcntl
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from limpet.domain.cause import Cause, Drained, NotStarted, StoreOutage, WorkerKilled
from limpet.domain.clock import SystemClock
from limpet.domain.event import Event, EventName, unreported_loss
from limpet.domain.ids import IdSource
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete
from limpet.domain.worker_settings import WorkerSettings
from limpet.host import locks, marks, processes
from limpet.log import WORDING
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.given import GivenJobs
from limpet.worker.wire import frames, page
from limpet.worker.wire.endings import RaisedRecord, RetryFrame
from limpet.worker.wire.plan import VARIABLE, Plan, from_environment

SOURCES = Path(__file__).parents[4] / "src" / "limpet"


def claimed(job: str = "01k7h7egouaedbkfnefms35cmt", args: str = "{}") -> ClaimedJob:
    return ClaimedJob(
        Lease(job, "s", 1),
        "task",
        "default",
        1,
        1,
        Counters(),
        False,
        False,
        1,
        args,
        "{}",
        (),
        None,
    )


# -- frames


def test_frames_come_back_whole_however_the_stream_is_cut() -> None:
    sent: list[frames.FromExecutor] = [
        frames.ReadyFrame(),
        frames.DoneFrame([Complete(Lease("j", "s", 2), json.dumps("r" * 3000), ("a",))]),
        frames.PongFrame(7),
        RetryFrame(Lease("j", "s", 2), 5, 1_500_000, RaisedRecord("ValueError", "no", "")),
    ]
    stream = b"".join(frames.pack(each) for each in sent)
    for size in (1, 2, 3, 5, 7, 100, 1000, len(stream)):
        splitter = frames.Splitter(frames.from_executor(10_000))
        heard = [
            frame
            for at in range(0, len(stream), size)
            for frame in splitter.feed(stream[at : at + size])
        ]
        assert heard == sent


def test_a_huge_frame_is_not_copied_for_each_piece() -> None:
    stream = frames.pack(frames.RunFrame([claimed(args="x" * 30_000_000)], {}))
    splitter = frames.Splitter(frames.FROM_SUPERVISOR)
    begun = time.process_time()
    heard = [
        frame
        for at in range(0, len(stream), 65536)
        for frame in splitter.feed(stream[at : at + 65536])
    ]
    assert len(heard) == 1
    assert time.process_time() - begun < 1.0  # copying each time took over ten


# -- the page


@pytest.mark.skipif(not processes.LINUX, reason="seals are Linux's")
def test_only_the_first_to_map_the_page_can_write_it() -> None:
    descriptor = page.create()
    writer = page.Page(descriptor, writable=True)
    reader = page.Page(descriptor)
    writer.lease_ends_at = page.now() + 1_000_000
    assert reader.lease_ends_at == writer.lease_ends_at
    assert [reader.over] == [False]
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.write(descriptor, b"x")
    with pytest.raises(TypeError):
        reader.lease_ends_at = 0
    writer.lease_ends_at = page.now() - 1
    assert [reader.over] == [True]
    os.close(descriptor)


# -- the kernel timer


def is_running(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


@pytest.mark.skipif(not processes.LINUX, reason="timers that kill are Linux's")
def test_a_stopped_process_is_ended_by_its_own_timer() -> None:
    code = (
        "import time\n"
        "from limpet.host.processes import KernelTimer\n"
        "timer = KernelTimer(1.0, asleep=True)\n"
        "print('armed', flush=True)\n"
        "while True:\n"
        "    timer.rearm()\n"
        "    time.sleep(0.02)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1.3)
    assert is_running(process), "re-armed, it lives on"
    os.kill(process.pid, signal.SIGSTOP)
    assert process.wait(timeout=10) == -signal.SIGKILL
    process.stdout.close()


# -- the locks


SESSION = "1" * 26


def _dead(held: locks.HeldLocks, **changes: object) -> bool:
    facts: dict[str, object] = {"path": held.path, "inode": held.inode, "nonce": held.nonce}
    facts.update(changes)
    return locks.proves_death(SESSION, **facts)  # type: ignore[arg-type]


@pytest.mark.usefixtures("run_folder")
def test_locks_prove_death_only_when_every_holder_is_gone() -> None:
    held = locks.take(SESSION)
    assert not _dead(held)
    os.close(held.core)
    assert not _dead(held), "an executor still has the first lock"
    os.close(held.whole)
    assert not _dead(held, inode=held.inode + 1), "another file of that name proves nothing"
    assert not _dead(held, nonce="other"), "nor does one with another nonce"
    assert not _dead(held, path=held.path + "x"), "nor a missing one"
    assert _dead(held)
    assert _dead(held), "whoever found it first could not tell it"
    locks.forget(SESSION, held.path)
    assert not os.path.exists(held.path)
    assert not _dead(held), "gone files prove nothing"


@pytest.mark.usefixtures("run_folder")
def test_a_finder_ends_what_carries_the_mark_before_it_is_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for marked in IdSource(SystemClock()).many(20):
        held = locks.take(marked)
        held.let_go()
        # It has only just become another program, and mostly shows no environment yet.
        stray = subprocess.Popen(["sleep", "60"], env={**os.environ, marks.MARK: marked})
        monkeypatch.setattr(processes, "pids", lambda pid=stray.pid: [pid])
        try:
            assert locks.proves_death(marked, held.path, held.inode, held.nonce)
            assert stray.wait(timeout=5) == -signal.SIGKILL
        finally:
            stray.kill()
            stray.wait()


def test_one_that_becomes_its_program_between_two_looks_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its environment was read before it had one, and by the next question it has become it."""
    marked = f"test-{os.getpid()}"
    stray = subprocess.Popen(["sleep", "60"], env={**os.environ, marks.MARK: marked})
    shown = processes.environment
    texts = iter([b""])
    try:
        while not shown(stray.pid):
            pass
        monkeypatch.setattr(processes, "environment", lambda pid: next(texts, shown(pid)))
        assert marks.marked(marked, [stray.pid]) == ({stray.pid}, set())
    finally:
        stray.kill()
        stray.wait()


def test_what_shows_no_mark_or_is_of_the_kernel_is_left_alone() -> None:
    bare = subprocess.Popen(["sleep", "60"], env={})
    try:
        assert marks.end_marked(f"test-{os.getpid()}", seconds=5)
        assert is_running(bare)
    finally:
        bare.kill()
        bare.wait()


@pytest.mark.usefixtures("run_folder")
def test_a_lock_is_free_only_when_the_last_heir_is_gone() -> None:
    held = locks.take(SESSION)
    heir = subprocess.Popen(["sleep", "60"], pass_fds=(held.whole,))
    held.let_go()
    assert not _dead(held)
    heir.kill()
    heir.wait()
    assert _dead(held)
    assert fcntl.LOCK_EX


def test_files_of_sessions_long_dead_are_tidied_away_and_others_are_not(run_folder: Path) -> None:
    dead, alive, fresh, new = IdSource(SystemClock()).many(4)
    for session in (dead, alive, fresh):
        held = locks.take(session)
        if session != alive:
            held.let_go()
        if session != fresh:
            for path in run_folder.glob(f"{session}*"):
                os.utime(path, (0, 0))
    locks.take(new).let_go()
    assert {path.name.partition(".")[0] for path in run_folder.iterdir()} == {alive, fresh, new}


# -- what the hook hears


def _event(name: EventName, cause: Cause | None = None) -> Event:
    return Event(0, name, "s", 1, cause)


LOST = WorkerKilled(signal=9)


@pytest.mark.parametrize(
    ("events", "heard"),
    [
        ([], None),
        ([_event(EventName.ORPHANED, LOST)], LOST),
        ([_event(EventName.RECOVERED, LOST)], LOST),
        ([_event(EventName.ORPHANED, LOST), _event(EventName.RELEASED, NotStarted())], LOST),
        ([_event(EventName.ORPHANED, LOST), _event(EventName.RELEASED, Drained())], None),
        ([_event(EventName.ORPHANED, LOST), _event(EventName.RETRIED, LOST)], None),
        ([_event(EventName.ORPHANED, LOST), _event(EventName.SNOOZED)], None),
        ([_event(EventName.RECOVERED, StoreOutage(1.0))], None),
        ([_event(EventName.ORPHANED, LOST), _event(EventName.RECOVERED, StoreOutage(1.0))], LOST),
    ],
)
def test_a_hook_hears_of_a_loss_that_no_attempt_has_answered_to(
    events: list[Event], heard: Cause | None
) -> None:
    assert unreported_loss(events) == heard


# -- the rest


def test_a_plan_reaches_the_next_process_and_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("shop:app", settings=WorkerSettings(queues={"email": 5, "video": None}, max_rss=10))
    monkeypatch.setenv(VARIABLE, plan.environment()[VARIABLE])
    assert from_environment() == plan
    assert VARIABLE not in os.environ


def test_every_action_that_is_emitted_has_its_words_and_every_word_is_used() -> None:
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    emitted = set(re.findall(r'(?:log\.emit\(|emit_for\(\w+,)\s*"(\w+)"', text))
    assert emitted == set(WORDING)


def test_a_system_without_the_means_is_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from limpet.cli.main import main

    monkeypatch.setattr(processes, "SUPPORTED", False)
    monkeypatch.setattr(sys, "platform", "plan9")
    assert main(["worker", "shop:app"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("limpet: a worker cannot keep its promises on plan9")
    assert said.count("\n") == 1


# -- an executor, as the supervisor sees it


class Heard:
    """Stands for the executors and their listener: keeps the outcomes that an executor sent."""

    def __init__(self) -> None:
        self.listener = self
        self.by_number: dict[int, Executor] = {}
        self.done: list[Complete] = []
        self.from_executor = frames.from_executor(1024)

    def on_done(self, executor: Executor, completes: list[Complete]) -> int:
        late = len([each for each in completes if each in self.done])
        self.done += completes
        return late


def test_outcomes_of_jobs_that_are_over_count_as_other_words_do() -> None:
    """Else a job that repeats the outcome of one before it has the supervisor read nothing else."""
    executor = Executor(1, frames.LANE, cast(Executors, Heard()))
    outcomes = frames.pack(frames.DoneFrame([Complete(Lease("j", "s", 1))] * 3))
    try:
        assert [executor._receive(outcomes) for _ in range(2)] == [0, 3]
    finally:
        for sock in (
            executor._work,
            executor.theirs_work,
            executor.request_socket,
            executor.theirs_request_socket,
        ):
            sock.close()
        for pipe in (executor._tokens.for_executor, executor._tokens._writer):
            os.close(pipe)
        for pipe in (executor._notes, executor._note_writer):
            os.close(pipe)


def test_whether_an_executor_had_a_job_is_soon_known_however_many_it_had() -> None:
    given = GivenJobs()
    for first in range(4_000, 8_000, 10):
        given.let_go([str(number) for number in range(first, first + 10)])
    began = time.process_time()
    assert all(given.had("7990") for _ in range(20_000))
    assert not any(given.had(str(number)) for number in range(10_000, 30_000))
    assert time.process_time() - began < 0.5
    given.let_go(["another"])
    assert given.had("another")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_an_executor_said_before_it_died_is_heard_though_we_could_not_write_to_it(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    heard = Heard()
    finished = Complete(Lease("j", "s", 1))

    async def speak_to_the_dead() -> None:
        executor = Executor(1, frames.LANE, cast(Executors, heard))
        theirs = executor.theirs_work.dup()
        await executor.connect()
        theirs.sendall(frames.pack(frames.DoneFrame([finished])))
        theirs.close()
        executor.send(frames.PingFrame(1))
        while not executor.is_read_out:
            await asyncio.sleep(0.001)
        executor.request_socket.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(speak_to_the_dead(), 10))
    assert heard.done == [finished]
