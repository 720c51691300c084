"""Plays the demo, scene by scene, and gathers the evidence on the way."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from limpet.demo import diary
from limpet.demo.cast import QUICK_JOBS, Cast, DemoPart, hand_in, hand_in_quick
from limpet.demo.checks import Evidence, JobFacts, Recovery
from limpet.demo.stage import DemoStage, Worker, kill, outer_pid, wait_a_moment
from limpet.domain.cause import Drained
from limpet.domain.clock import SystemClock
from limpet.domain.event import EventName, timeline
from limpet.domain.job import Job
from limpet.domain.lease import Lease
from limpet.domain.plural import number_of
from limpet.domain.state import FINAL, State
from limpet.storage.contract.store import Store

# The promises (DESIGN, section 4): how soon a job is ready again after a kill.
EXECUTOR_PROMISE_SECONDS = 0.1
WORKER_PROMISE_SECONDS = 1.0

_TIMEOUT_SECONDS = 45.0
_LOOK_SECONDS = 0.08
_QUICK_AT_ONCE = 5
_FINAL_EVENTS = {EventName.SUCCEEDED, EventName.FAILED, EventName.CANCELLED}


@dataclass(frozen=True, slots=True)
class StoryRow:
    """A line of the picture; `fraction` is None for a job that reports no progress."""

    name: str
    state: State
    fraction: float | None
    note: str = ""
    worker: str = ""
    attempt: int = 1


class Narrator(Protocol):
    """Prints the story as it goes."""

    def report(self, what: str, text: str) -> None:
        """Print an event."""
        ...

    def show(self, rows: Sequence[StoryRow]) -> None:
        """Show the jobs as they are now."""
        ...


class Stuck(Exception):
    """The demo waited for something that did not come."""


@dataclass(frozen=True, slots=True)
class _Kill:
    """A kill, in microseconds of both clocks; `hit`: part → the token of the run it cut off."""

    boot: int
    wall: int
    hit: dict[str, int]
    event: EventName


class Story:
    """One performance."""

    def __init__(self, stage: DemoStage, store: Store, app: Any, narrator: Narrator) -> None:
        self._stage = stage
        self._store = store
        self._app = app
        self._narrator = narrator
        self._clock = SystemClock()
        self._until = time.monotonic() + _TIMEOUT_SECONDS
        self._next_look = 0.0
        self._names: dict[str, str] = {}
        self._workers: dict[str, Worker] = {}
        self._kills: list[tuple[str, float, _Kill]] = []
        self._left: list[str] = []
        self._processes = 0
        self._late_words = self._refused = 0
        self._cast = Cast([])

    def run(self) -> Evidence:
        """Play it to the end, or as far as it goes."""
        stuck = None
        try:
            self._play()
        except Stuck as reason:
            stuck = str(reason)
        return self._evidence(stuck)

    def _play(self) -> None:
        info = self._store.info()
        self._narrator.report("store", f"a new SQLite file; {info.durability.partition(' (')[0]}")
        for name in ("ann", "ben"):
            self._workers[name] = self._stage.start(name)
        for worker in self._workers.values():
            self._await(worker)
        self._cast = hand_in(self._app)
        self._narrator.report(
            "jobs", f"{QUICK_JOBS} quick, 3 slow, 1 CPU-bound, 1 with a program, 2 failing"
        )
        self._kill_a_process()
        survivor = self._kill_a_worker()
        self._wait("all jobs to end", self._all_ended)
        self._look(at_once=True)
        self._narrator.report("done", "every job has ended")
        self._leave(survivor)

    # -- scenes

    def _await(self, worker: Worker) -> None:
        name = worker.name

        def ready() -> bool:
            if worker.process.poll() is not None:
                raise Stuck(f"worker {name} ended at once")
            for session in self._store.sessions():
                self._names[session.id] = session.name
            return name in self._names.values()

        try:
            self._wait(f"worker {name} to start", ready)
        except Stuck as stuck:
            raise Stuck(f"{stuck}; its log ends: {worker.last_words() or 'empty'}") from stuck
        log = worker.log.read_text(errors="replace")
        how = "in a pid namespace" if "a pid namespace" in log else "by its process tree"
        self._narrator.report(
            "worker", f"{name} is ready, pid {worker.process.pid}; jobs are held {how}"
        )

    def _kill_a_process(self) -> None:
        """Scene one: kill the process of one job, not the worker."""
        part = self._cast.part("resize")
        self._wait("resize to get going", lambda: self._share(part) > 0.3)
        job = self._job(part)
        trace = next(
            trace for trace in diary.read(self._stage.folder)
            if (trace.job, trace.token, trace.who) == (part.id, job.token, "job")
        )  # fmt: skip
        holder = self._workers[self._holder(job)]
        pid = outer_pid(holder, trace.pid)
        if pid is None:
            raise Stuck(f"the process of resize, {trace.pid}, was not found below {holder.name}")
        done = _Kill(
            self._clock.boot(), self._clock.wall(), {part.name: job.token}, EventName.ORPHANED
        )
        kill([pid])
        self._narrator.report("kill -9", f"the process that runs resize, pid {pid}")
        part.fate = replace(part.fate, orphans=1, strikes=1)
        self._recovered("process", EXECUTOR_PROMISE_SECONDS, done)

    def _kill_a_worker(self) -> Worker:
        """Scene two: kill all of a worker at once; Limpet must end the programs of its jobs."""
        self._wait("the jobs to be in the middle", self._in_the_middle)
        jobs = {part.name: self._job(part) for part in self._cast.parts}
        victim = self._workers[self._holder(jobs["convert"])]
        survivor = next(worker for worker in self._workers.values() if worker is not victim)
        session = jobs["convert"].session or ""
        held = {n: job for n, job in jobs.items() if job.session == session and job.begun}
        tree = victim.tree()
        programs = set(self._stage.alive()) - set(tree) - set(survivor.tree())
        self._processes += len(tree) + len(programs)
        boot, wall = self._clock.boot(), self._clock.wall()
        kill(list(tree))
        victim.process.wait()
        # A job that ended between the look and the kill was not hit.
        states = self._store.states([job.id for job in held.values()])
        hit = {name: job.token for name, job in held.items() if states[job.id] not in FINAL}
        done = _Kill(boot, wall, hit, EventName.RECOVERED)
        self._narrator.report(
            "kill -9",
            f"all {len(tree)} processes of worker {victim.name}, in the middle of "
            f"{number_of(len(hit), 'job')}",
        )
        for name in hit:
            part = self._cast.part(name)
            part.fate = replace(part.fate, orphans=part.fate.orphans + 1)
        self._recovered("worker", WORKER_PROMISE_SECONDS, done)
        left = programs & set(self._stage.alive())
        self._left += [f"pid {pid}, started by a job of {victim.name}" for pid in sorted(left)]
        self._narrator.report(
            "gone", f"{len(programs) - len(left)} of the {len(programs)} programs of those jobs"
        )
        self._speak_for_the_dead([Lease(jobs[name].id, session, hit[name]) for name in hit])
        return survivor

    def _in_the_middle(self) -> bool:
        """Whether a kill now would hit the long jobs in the middle, and none that just began."""
        for part in self._cast.parts:
            job = self._job(part)
            if part.name == "convert" and job.state in FINAL:
                raise Stuck("convert ended before it could be cut off; is the machine busy?")
            least = 0.35 if part.name in ("upload", "convert") else 0.15
            if job.state not in FINAL and self._share(part) < least:
                return False
        return True

    def _speak_for_the_dead(self, leases: list[Lease]) -> None:
        """Write to the store what the dead worker would write if it were only slow."""
        self._late_words += len(leases)
        self._refused += len(self._store.release(leases[0].session, leases, Drained()))

    def _recovered(self, what: str, promise: float, done: _Kill) -> None:
        self._kills.append((what, promise, done))
        parts = [self._cast.part(name) for name in done.hit]

        def running_again() -> bool:
            begun = {(trace.job, trace.token) for trace in diary.read(self._stage.folder)}
            return all(
                any((part.id, token) in begun for token in range(done.hit[part.name] + 1, 99))
                for part in parts
            )

        self._wait(f"{', '.join(done.hit)} to run again", running_again)
        found = self._recovery(what, promise, done, diary.read(self._stage.folder))
        who = done.hit.keys() if len(parts) == 1 else [f"{len(parts)} jobs"]
        holders = {self._holder(self._job(part)) for part in parts} - {""}
        self._narrator.report(
            "recovered",
            f"{', '.join(who)}: ready after {max(found.ready, default=0):.2f} s, running on "
            f"{' and '.join(sorted(holders)) or 'a worker'} after {max(found.running):.2f} s",
        )

    def _leave(self, worker: Worker) -> None:
        self._processes += len(worker.tree())
        code = self._stage.stop(worker)
        if code != 0:
            self._left.append(f"worker {worker.name} got SIGTERM and ended with {code}")
        self._left += [f"pid {pid} ({name})" for pid, name in self._stage.alive().items()]
        self._narrator.report("worker", f"{worker.name} got SIGTERM and stopped")

    # -- waiting and looking

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        while not condition():
            if time.monotonic() > self._until:
                raise Stuck(f"waited in vain for {what}")
            self._look()
            wait_a_moment()

    def _look(self, at_once: bool = False) -> None:
        """Draw the jobs, and enqueue some more quick ones."""
        if time.monotonic() < self._next_look and not at_once:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        if not self._cast.parts:
            return
        hand_in_quick(self._app, self._cast, _QUICK_AT_ONCE)
        for session in self._store.sessions():
            self._names[session.id] = session.name
        rows = [self._row(part) for part in self._cast.parts]
        self._narrator.show([*rows, self._quick_row()])

    def _row(self, part: DemoPart) -> StoryRow:
        job = self._job(part)
        progress = job.progress
        fraction = progress.done / progress.total if progress and progress.total else 0.0
        note = progress.note if progress else ""
        if job.error is not None and job.state is not State.SUCCEEDED and not note:
            note = str(job.error)
        attempt = job.counters.failures + job.counters.orphans + (job.state is not State.FAILED)
        worker = self._holder(job)
        return StoryRow(part.name, job.state, fraction, note, worker, attempt)

    def _quick_row(self) -> StoryRow:
        states = self._store.states(self._cast.quick)
        count = sum(state in FINAL for state in states.values())
        state = State.SUCCEEDED if count == QUICK_JOBS else State.RUNNING
        return StoryRow("quick jobs", state, count / QUICK_JOBS, f"{count} of {QUICK_JOBS}")

    def _all_ended(self) -> bool:
        ids = [*(part.id for part in self._cast.parts), *self._cast.quick]
        states = self._store.states(ids)
        return len(self._cast.quick) == QUICK_JOBS and all(states.get(job) in FINAL for job in ids)

    def _job(self, part: DemoPart) -> Job:
        job = self._store.job(part.id)
        assert job is not None
        return job

    def _holder(self, job: Job) -> str:
        return self._names.get(job.session or "", "")

    def _share(self, part: DemoPart) -> float:
        job = self._job(part)
        if job.state is State.RUNNING and job.begun and job.progress and job.progress.total:
            return job.progress.done / job.progress.total
        return 0.0

    # -- evidence

    def _evidence(self, stuck: str | None) -> Evidence:
        traces = diary.read(self._stage.folder)
        facts = [self._facts(part.id, part.name, part) for part in self._cast.parts]
        facts += [self._facts(job, "a quick job", None) for job in self._cast.quick]
        return Evidence(
            jobs=facts,
            traces=traces,
            recoveries=[self._recovery(*kill_, traces) for kill_ in self._kills],
            left_behind=self._left,
            processes=self._processes,
            late_words=self._late_words,
            refused=self._refused,
            broken=[violation.invariant for violation in self._store.invariants()],
            stuck=stuck,
        )

    def _facts(self, id_: str, name: str, part: DemoPart | None) -> JobFacts:
        job = self._store.job(id_)
        assert job is not None
        entries = timeline(job, list(self._store.events(id_)))
        offset = self._clock.wall() - self._clock.boot()
        return JobFacts(
            id=id_,
            name=name,
            state=job.state,
            final_events=sum(event.event in _FINAL_EVENTS for event in entries),
            token=job.token,
            kept_token=int(job.result) if job.result else None,
            failures=job.counters.failures,
            orphans=job.counters.orphans,
            strikes=job.counters.strikes,
            finished_at=None if job.finished_at is None else job.finished_at - offset,
            fate=None if part is None else part.fate,
        )

    def _recovery(
        self, what: str, promise: float, done: _Kill, traces: Sequence[diary.Trace]
    ) -> Recovery:
        ready, running = [], []
        for name, token in done.hit.items():
            part = self._cast.part(name)
            ready += [
                (event.at - done.wall) / 1e6
                for event in self._store.events(part.id)
                if event.event is done.event and event.token == token
            ]
            begins = [
                trace.begin
                for trace in traces
                if trace.job == part.id and trace.token > token and trace.who == "job"
            ]
            running += [(min(begins) - done.boot) / 1e6] if begins else []
        return Recovery(what, promise, len(done.hit), tuple(ready), tuple(running))


def perform(folder: Path, narrator: Narrator) -> Evidence:
    """Play the demo in the current folder; none of its processes is alive afterwards."""
    from limpet.demo.app import app  # bound to the current folder

    with DemoStage(folder) as stage:
        store = app.client.store
        store.migrate()
        try:
            return Story(stage, store, app, narrator).run()
        finally:
            app.close()
