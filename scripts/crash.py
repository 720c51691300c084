"""Kills a writer with -9, at random points and before each statement, and checks the file after it.

Run by hand: `python scripts/crash.py random 500` and `python scripts/crash.py statements`. Both run
in a process of their own with one thread, which forks its victims in milliseconds, and print the
result as JSON.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import apsw
import apsw.shell

from limpet.domain.cause import Raised, WorkerKilled
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import ClaimedJob, NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, RetryAt, Settlement
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Want
from limpet.storage.sqlite.store import SqliteStore

# A new file after this many kills, so that creating the tables is interrupted too.
KILLS_OF_ONE_FILE = 20
TASKS = frozenset({"work", "old"})
RETENTION = {State.SUCCEEDED: timedelta(0), State.FAILED: timedelta(0)}
_TWO_HOURS_US = 7_200_000_000


@dataclass
class Found:
    """The result of a series of kills: how much was acknowledged, and every trouble."""

    kills: int = 0
    enqueued: int = 0
    settled: int = 0
    files: int = 0
    troubles: list[str] = field(default_factory=list)


class ShiftedClock(SystemClock):
    """A clock that is behind, for jobs that are old enough to be pruned."""

    shift = 0

    def wall(self) -> int:
        return super().wall() - self.shift


def in_a_process(*arguments: str) -> dict[str, Any]:
    """Run this script in a process of its own and return its result."""
    command = [sys.executable, "-W", "error", __file__, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# -- at random points


def kill_at_random(folder: Path, kills: int, seed: int) -> Found:
    """Kill a writer `kills` times; after each kill read the file and the acknowledgements."""
    chance = random.Random(seed)
    found = Found()
    for number in range(kills):
        home = folder / str(number // KILLS_OF_ONE_FILE)
        if not home.exists():
            home.mkdir()
            found.files += 1
        victim = _fork(_write_for_ever, home, chance.random())
        # Half of the kills come early, while the file is opened, created or recovered.
        time.sleep(chance.uniform(0, chance.choice((0.02, 0.12))))
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        found.kills += 1
        if not os.WIFSIGNALED(status):
            found.troubles.append(f"the writer of kill {number} ended by itself: {status}")
        enqueued, settled, troubles = _look(home)
        found.troubles += [f"after kill {number}: {trouble}" for trouble in troubles]
        if (number + 1) % KILLS_OF_ONE_FILE == 0 or number + 1 == kills:
            found.enqueued += enqueued
            found.settled += settled
            shutil.rmtree(home)
    return found


def _fork(victim: Callable[..., object], *arguments: object) -> int:
    assert threading.active_count() == 1, "fork from one thread only"
    child = os.fork()
    if child == 0:
        try:
            victim(*arguments)
        except BaseException as error:
            os.write(2, f"the writer failed: {error!r}\n".encode())
        finally:
            os._exit(70)
    return child


def _write_for_ever(home: Path, seed: float) -> NoReturn:
    """Call every verb that writes; what a verb has returned is acknowledged in a file."""
    chance = random.Random(seed)
    clock = ShiftedClock()
    ids = IdSource(clock)
    store = SqliteStore(f"sqlite:///{home / 'jobs.db'}", clock)
    acknowledged = os.open(home / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def acknowledge(lines: list[str]) -> None:
        os.write(acknowledged, "".join(f"{line}\n" for line in lines).encode())

    session = ids.new()
    new = NewSession(session, SessionKind.WORKER, "victim", "here", os.getpid(), tasks=TASKS)
    want = Want((Pool(store.register(new).tasks, {ANY_QUEUE: 5}, 5),))
    for other in store.sessions():
        if other.id != session:
            store.end(other.id, WorkerKilled(9))
    for dead in store.expire():
        store.recover(dead.id)
    seq = 0
    held: tuple[ClaimedJob, ...] = ()
    while True:
        fresh = [_job(ids, clock, chance) for _ in range(chance.randint(1, 5))]
        store.enqueue(fresh)
        acknowledge([f"enqueued {job.id}" for job in fresh])
        clock.shift = _TWO_HOURS_US
        store.enqueue([NewJob(ids.new(), "old", "{}") for _ in range(2)])
        clock.shift = 0
        settlements = [_outcome(job, clock, chance) for job in held]
        seq += 1
        answer = store.exchange(session, seq, settlements, want)
        refused = {rejected.lease for rejected in answer.rejected}
        acknowledge(
            [
                f"{_state(settlement)} {job.lease.job}"
                for job, settlement in zip(held, settlements, strict=True)
                if job.lease not in refused and job.task == "work"
            ]
        )
        held = answer.claimed
        store.renew(session, [job.lease for job in held])
        store.promote()
        store.prune(RETENTION)


def _job(ids: IdSource, clock: ShiftedClock, chance: random.Random) -> NewJob:
    soon = clock.wall() + chance.randint(1, 20_000)
    return NewJob(
        ids.new(),
        "work",
        json.dumps({"text": "x" * chance.choice((1, 100, 10_000))}),
        priority=chance.randint(-1, 1),
        scheduled_for=chance.choice((None, soon)),
    )


def _outcome(job: ClaimedJob, clock: ShiftedClock, chance: random.Random) -> Settlement:
    match chance.randint(0, 4):
        case 0:
            return Fail(job.lease, Raised("ValueError", "no"))
        case 1:
            return RetryAt(job.lease, clock.wall() + 1_000, Raised("ValueError", "again"))
        case _:
            return Complete(job.lease, chance.choice(("null", '{"done": true}')))


def _state(settlement: Settlement) -> str:
    if isinstance(settlement, Complete):
        return State.SUCCEEDED
    return State.FAILED if isinstance(settlement, Fail) else "again"


def _look(home: Path) -> tuple[int, int, list[str]]:
    """Numbers of acknowledged jobs and outcomes, and a trouble for each that the store has lost."""
    log = home / "acknowledged"
    lines = [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []
    must: dict[str, str | None] = {}
    for what, job in lines:
        # A job that is retried may be in any state, also finished by the writer that was killed.
        must[job] = what if what in (State.SUCCEEDED, State.FAILED) else None
    ids = list(must)
    troubles: list[str] = []
    with contextlib.closing(SqliteStore(f"sqlite:///{home / 'jobs.db'}")) as store:
        store.migrate()  # creates the tables, if the writer did not get that far
        states: dict[str, State] = {}
        for start in range(0, len(ids), CHUNK):
            states |= store.states(ids[start : start + CHUNK])
        troubles += [f"{broken}" for broken in store.invariants()]
    for job, state in must.items():
        if job not in states:
            troubles.append(f"job {job} was acknowledged and is not there")
        elif state is not None and states[job] != state:
            troubles.append(f"job {job} was acknowledged {state} and is {states[job]}")
    settled = sum(1 for what, _ in lines if what in (State.SUCCEEDED, State.FAILED))
    return len(ids), settled, troubles


# -- before each statement


class StillClock:
    """Stands still, so that a verb called twice on the same file gives the same file."""

    def __init__(self, wall: int, boot: int) -> None:
        self._wall, self._boot = wall, boot

    def wall(self) -> int:
        return self._wall

    def boot(self) -> int:
        return self._boot


@dataclass(frozen=True)
class Scene:
    """A verb that is killed in the middle, and the file that it starts from."""

    verb: str
    act: Callable[[SqliteStore], object]
    before: Path


def kill_before_each_statement(folder: Path) -> dict[str, Any]:
    """For every verb and every k, kill before its k-th statement; count and judge."""
    killed: dict[str, int] = {}
    troubles: list[str] = []
    clock = StillClock(time.time_ns() // 1000, SystemClock().boot())
    for scene in _scenes(folder, clock):
        before = dump(scene.before)
        place = folder / "killed.db"
        outcomes: list[str] = []
        while not outcomes or outcomes[-1] != "after":
            _copy(scene.before, place)
            victim = _fork(_die_at, len(outcomes) + 1, scene.act, place, clock)
            _, status = os.waitpid(victim, 0)
            with contextlib.closing(SqliteStore(f"sqlite:///{place}", clock)) as store:
                troubles += [f"{scene.verb}: {broken}" for broken in store.invariants()]
            left = dump(place)
            if os.WIFSIGNALED(status):
                outcomes.append("before" if left == before else "between")
            else:
                outcomes.append("after" if left != before and status == 0 else "nothing")
            if outcomes[-1] in ("between", "nothing"):
                troubles.append(f"{scene.verb}, statement {len(outcomes)}: {outcomes[-1]}")
                break
        killed[scene.verb] = outcomes.count("before")
    return {"killed": killed, "troubles": troubles}


def _scenes(folder: Path, clock: StillClock) -> list[Scene]:
    """An enqueue; an exchange that settles and claims; a recover; a prune."""
    path = folder / "before.db"
    long_ago = StillClock(clock.wall() - _TWO_HOURS_US, clock.boot())
    ids = IdSource(SystemClock())
    jobs = [NewJob(ids.new(), "work", "{}") for _ in range(12)]
    session, dead = ids.new(), ids.new()
    with contextlib.closing(SqliteStore(f"sqlite:///{path}", long_ago)) as store:
        store.enqueue(jobs)
        for id_ in (session, dead):
            store.register(NewSession(id_, SessionKind.WORKER, "w", "h", 1, tasks=TASKS))
        want = Want((Pool(store.register(_again(session)).tasks, {ANY_QUEUE: 4}, 4),))
        done = store.exchange(session, 1, (), want).claimed
        held = store.exchange(session, 2, [Complete(job.lease, "1") for job in done], want).claimed
        lost = store.exchange(dead, 1, (), want).claimed
        store.renew(dead, [job.lease for job in lost])
        store.end(dead, WorkerKilled(9))
    settlements: list[Settlement] = [
        Complete(held[0].lease, '"done"'),
        Fail(held[1].lease, Raised("ValueError", "no")),
        RetryAt(held[2].lease, clock.wall() + 1, Raised("ValueError", "again")),
        Complete(held[3].lease),
    ]
    more = [NewJob(ids.new(), "work", "{}", queue=queue) for queue in ("a", "b", "a")]
    with contextlib.closing(SqliteStore(f"sqlite:///{path}", clock)) as store:
        store.enqueue([NewJob(ids.new(), "work", "{}") for _ in range(4)])
        store.pause("nowhere", False)
    return [
        Scene("enqueue", lambda store: store.enqueue(more), path),
        Scene("exchange", lambda store: store.exchange(session, 3, settlements, want), path),
        Scene("recover", lambda store: store.recover(dead), path),
        Scene("prune", lambda store: store.prune(RETENTION), path),
    ]


def _again(session: str) -> NewSession:
    return NewSession(session, SessionKind.WORKER, "w", "h", 1, tasks=TASKS)


def _die_at(
    k: int, act: Callable[[SqliteStore], object], place: Path, clock: StillClock
) -> NoReturn:
    """Call the verb on an open store, and be killed before its k-th statement."""
    store = SqliteStore(f"sqlite:///{place}", clock)
    store.pause("nowhere", False)  # changes nothing, but opens the connection before the count
    writer = store._db._connections.writer()
    count = 0

    def before_statement(*_: object) -> bool:
        nonlocal count
        count += 1
        if count == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    writer.exec_trace = before_statement
    act(store)
    os._exit(0)


def dump(path: Path) -> str:
    """The whole database as text."""
    text = io.StringIO()
    connection = apsw.Connection(str(path))
    with contextlib.closing(connection):
        shell: Any = apsw.shell.Shell(stdout=text, db=connection)
        shell.process_command(".dump")
    # The first lines have the time of the dump.
    return "\n".join(line for line in text.getvalue().splitlines() if not line.startswith("--"))


def _copy(source: Path, target: Path) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(source, target)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] == "random":
            seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
            started = time.monotonic()
            found = kill_at_random(Path(folder), int(sys.argv[2]), seed)
            seconds = round(time.monotonic() - started, 1)
            answer = {**found.__dict__, "seed": seed, "seconds": seconds}
        else:
            answer = kill_before_each_statement(Path(folder))
    print(json.dumps(answer))
    return 1 if answer["troubles"] else 0


if __name__ == "__main__":
    sys.exit(main())
