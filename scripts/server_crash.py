"""Kills a server with -9 at random points under writers, and checks what it still has.

Run by hand, with `tests` on the Python path: `python scripts/server_crash.py postgres 30`. It runs
on `redis`, `valkey` (both with an AOF that is written before each answer) and `postgres` (with its
default settings), and prints the result as JSON. A killed server loses data that it had not given
to the operating system; this script proves that case, not the case of a power cut.
"""

import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from servers import PostgresServer, RedisServer

from limpet.domain.cause import Raised
from limpet.domain.clock import SystemClock
from limpet.domain.errors import StoreRolledBack, StoreUnavailable
from limpet.domain.ids import IdSource
from limpet.domain.job import ClaimedJob, NewJob
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind, Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Settlement
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Store, Want
from limpet.storage.registry import open_store

KINDS = ("redis", "valkey", "postgres")
WRITERS = 3
TASKS = frozenset({"work"})
# After a kill the server's other processes need a moment to notice; it does not start before that.
STARTS = 50
TIMEOUT_SECONDS = 60.0

T = TypeVar("T")
Server = PostgresServer | RedisServer


@dataclass
class Found:
    """The result of a series of kills: how much was acknowledged, and every trouble."""

    kind: str
    engine: str = ""
    kills: int = 0
    cut: int = 0
    enqueued: int = 0
    settled: int = 0
    seconds: float = 0.0
    seed: int = 0
    troubles: list[str] = field(default_factory=list)

    def summary(self) -> str:
        return (
            f"{self.engine}: {self.kills} kills in {self.seconds:.0f} s, {self.cut} calls of "
            f"{WRITERS} writers were cut off; {self.enqueued} jobs and {self.settled} outcomes "
            f"were acknowledged; seed {self.seed}; {len(self.troubles)} troubles"
        )


def server_of(kind: str, folder: Path) -> Server:
    if kind == "postgres":
        return PostgresServer(folder, fsync="on", full_page_writes="on")
    return RedisServer(folder, "--appendonly", "yes", "--appendfsync", "always", kind=kind)


class Writer:
    """Enqueues, claims, settles and renews; repeats calls that were cut off, as a worker does."""

    def __init__(self, url: str, seed: float) -> None:
        self.store: Store = open_store(url)
        self.acknowledged: dict[str, State | None] = {}
        self.cut = 0
        self._chance = random.Random(seed)
        self._ids = IdSource(SystemClock())
        self._session = ""

    def write(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if not self._session:
                self._register()
            self._exchange()

    def _register(self) -> None:
        self._session, self._seq = self._ids.new(), 0
        self._held: tuple[ClaimedJob, ...] = ()
        new = NewSession(self._session, SessionKind.WORKER, "w", "here", 1, tasks=TASKS)
        self._want = Want(
            (Pool(self._repeated(lambda: self.store.register(new)).tasks, {ANY_QUEUE: 5}, 5),)
        )

    def _exchange(self) -> None:
        fresh = [
            NewJob(self._ids.new(), "work", json.dumps("x" * self._chance.choice((1, 100, 5_000))))
            for _ in range(self._chance.randint(1, 5))
        ]
        self._repeated(lambda: self.store.enqueue(fresh))
        self.acknowledged.update((job.id, None) for job in fresh)
        settlements = [self._outcome(job.lease) for job in self._held]
        self._seq += 1
        try:
            answer = self._repeated(
                lambda: self.store.exchange(self._session, self._seq, settlements, self._want)
            )
            refused = {rejected.lease for rejected in answer.rejected}
            for settlement in settlements:
                if settlement.lease not in refused:
                    done = State.SUCCEEDED if isinstance(settlement, Complete) else State.FAILED
                    self.acknowledged[settlement.lease.job] = done
            self._held = answer.claimed
            renewed = self._repeated(lambda: self.store.renew(self._session))
            if renewed.standing is not Standing.LIVE:
                self._session = ""
        except StoreRolledBack:
            raise RuntimeError("the store is behind what it acknowledged") from None

    def _outcome(self, lease: Lease) -> Settlement:
        if self._chance.random() < 0.2:
            return Fail(lease, Raised("ValueError", "no"))
        return Complete(lease, "1")

    def _repeated(self, call: Callable[[], T]) -> T:
        """Repeat a call until it is answered: each verb may be repeated."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return call()
            except StoreUnavailable:
                self.cut += 1
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


def kill_at_random(kind: str, kills: int, seed: int) -> Found:
    """Kill the server `kills` times; after each kill check whether anything is lost."""
    chance = random.Random(seed)
    found = Found(kind, seed=seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="limpet-crash-") as name, ExitStack() as stack:
        Path(name).chmod(0o755)
        server = server_of(kind, Path(name) / "server")
        server.start()
        stack.callback(server.kill)
        store = stack.enter_context(closing(open_store(server.url)))
        store.migrate()
        found.engine = store.info().engine
        writers = [Writer(server.url, chance.random()) for _ in range(WRITERS)]
        for writer in writers:
            stack.enter_context(closing(writer.store))
        for number in range(kills):
            _round(server, writers, chance, found)
            found.kills += 1
            found.troubles += [
                f"after kill {number}: {trouble}" for trouble in _look(store, writers)
            ]
            if found.troubles:
                break
        found.cut = sum(writer.cut for writer in writers)
        every = [state for writer in writers for state in writer.acknowledged.values()]
        found.enqueued, found.settled = len(every), sum(state is not None for state in every)
    found.seconds = time.monotonic() - began
    return found


def _round(server: Server, writers: list[Writer], chance: random.Random, found: Found) -> None:
    stop = threading.Event()

    def write(writer: Writer) -> None:
        try:
            writer.write(stop)
        except Exception as error:
            found.troubles.append(f"a writer failed: {error!r}")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.05, 0.6))
    server.kill()
    _start(server)
    time.sleep(chance.uniform(0, 0.1))
    stop.set()
    for thread in threads:
        thread.join()


def _start(server: Server) -> None:
    for _ in range(STARTS):
        try:
            server.start()
        except RuntimeError:
            time.sleep(0.1)
        else:
            return
    server.start()


def _look(store: Store, writers: list[Writer]) -> list[str]:
    must = {job: state for writer in writers for job, state in writer.acknowledged.items()}
    ids = list(must)
    states: dict[str, State] = {}
    for start in range(0, len(ids), CHUNK):
        states |= store.states(ids[start : start + CHUNK])
    troubles = [str(broken) for broken in store.invariants()]
    for job, state in must.items():
        if job not in states:
            troubles.append(f"job {job} was acknowledged and is not there")
        elif state is not None and states[job] is not state:
            troubles.append(f"job {job} was acknowledged {state} and is {states[job]}")
    return troubles


def main() -> int:
    kind, kills = sys.argv[1], int(sys.argv[2])
    found = kill_at_random(kind, kills, random.SystemRandom().randrange(1 << 31))
    print(json.dumps({**asdict(found), "summary": found.summary()}))
    return 1 if found.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
