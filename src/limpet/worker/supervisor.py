"""The supervisor: the only process of a worker that talks to the store.

It claims, renews, settles and sweeps, and never imports user code. Whatever ends its session (a
lost lease, a store that was rolled back, a dead zygote) ends it too: the guardian starts the next
one, so there is one way to begin.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

from limpet import log
from limpet.domain.cause import Cause, Drained, Requested, StoreOutage, WorkerKilled
from limpet.domain.errors import (
    InvalidOption,
    LimpetError,
    SchemaMismatch,
    SequenceError,
    SessionLost,
    StoreError,
    StoreRefused,
    StoreRolledBack,
)
from limpet.domain.event import EventName
from limpet.domain.session import NewSession, Session, SessionKind, SessionLock
from limpet.domain.state import State
from limpet.domain.transition import Release
from limpet.maintenance.promoter import Promoter
from limpet.maintenance.pruner import Pruner
from limpet.maintenance.sweeper import Sweeper, recover_all
from limpet.storage.answers import Renewed
from limpet.storage.base import Store, Topic
from limpet.storage.registry import open_store
from limpet.worker import locks, processes
from limpet.worker.claimer import Claimer
from limpet.worker.crew import Crew
from limpet.worker.desk import Desk
from limpet.worker.dispatcher import Dispatcher
from limpet.worker.frames import CATALOG, CHANGED, LANE, LOOP, REFUSED, Catalog, TaskFacts
from limpet.worker.guardian import ANEW, DONE, WRONG_USAGE
from limpet.worker.heart import BEGUN_SECONDS, Heart
from limpet.worker.holds import Hold, Ledger
from limpet.worker.page import Page, now
from limpet.worker.plan import Plan, from_environment

_TICK_SECONDS = 0.05
_REPORT_SECONDS = 0.1
_PROOF_SECONDS = 0.2
_PRUNE_SECONDS = 60.0
_STORE_PAUSE_SECONDS = 0.1
# How long jobs that must stop at once may take before they are ended.
_LAST_GRACE_SECONDS = 0.3
# How long stop hooks may take at the end.
_GOODBYE_SECONDS = 1.0
# What a store says that will not change by asking again.
_FINAL_WORDS = (StoreRolledBack, SessionLost, SequenceError, SchemaMismatch, StoreRefused)


class SessionOver(Exception):
    """The session cannot go on; `cause` tells the store why, and the code what comes next."""

    def __init__(self, reason: str, cause: Cause, code: int = ANEW) -> None:
        super().__init__(reason)
        self.cause = cause
        self.code = code


class Supervisor:
    """One session."""

    def __init__(self, plan: Plan, order: dict[str, Any]) -> None:
        self._plan = plan
        self._session: str = order["session"]
        self._lock = SessionLock(**order["lock"])
        self._guardian: int = order["guardian"]
        descriptors = order["descriptors"]
        self._page = Page(descriptors["page"], writable=True)
        self._link = socket.socket(fileno=descriptors["link"])
        self._ledger = Ledger()
        self._pools = {
            verb: ThreadPoolExecutor(count, thread_name_prefix=f"limpet-{verb}")
            for verb, count in (("exchange", 1), ("renew", 1), ("", 4))
        }
        self._over: asyncio.Future[SessionOver] = asyncio.get_running_loop().create_future()
        self._stop_asked = asyncio.Event()
        self._signals = 0
        self._reload = False
        self._failing_since: int | None = None
        self._catalog: asyncio.Future[Catalog] = asyncio.get_running_loop().create_future()
        desk = Desk(self._call)
        self._dispatcher = Dispatcher(
            plan,
            self._ledger,
            desk,
            self._on_zygote,
            self._on_zygote_death,
            asyncio.get_running_loop().call_later,
        )
        self._crew = Crew(
            plan, self._session, descriptors["page"], descriptors["whole"], self._dispatcher
        )
        self._dispatcher.crew = self._crew
        self._dispatcher.on_begun = self._on_begun
        self._ended = False
        self._services: list[asyncio.Task[None]] = []

    # -- a life

    async def run(self) -> int:
        """From the first breath to the last; the answer is the exit code for the guardian."""
        self._settle_in()
        try:
            await self._begin()
            await self._until_over()
            return await self._leave()
        except SessionOver as end:
            return await self._lose(end)

    def _settle_in(self) -> None:
        processes.set_name("limpet-super")
        processes.adopt_orphans()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._guardian_gone)
        processes.die_with_parent(signal.SIGUSR1)
        if os.getppid() != self._guardian:
            self._guardian_gone()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, _nothing)  # the guardian says what they mean
        self._link.setblocking(False)
        loop.add_reader(self._link, self._hear_guardian)
        self._timer = processes.KernelTimer(self._plan.frozen, asleep=True)
        self._page.tick = now()
        self._serve(self._tick_forever())

    async def _begin(self) -> None:
        """Import, open, sweep, register: in this order, so that nothing is claimed too early."""
        self._crew.start_zygote(namespace=self._plan.pid_namespace)
        catalog = await self._first(self._catalog)
        url = self._plan.url or catalog.url
        self._store: Store = open_store(url)
        self._tell_guardian(url=url)
        await self._ask("promote")  # the first write makes a store that is not there yet
        info = await self._ask("info")
        if info.durability.startswith("none"):
            raise SessionOver(
                f"{url} is in memory, which processes do not share; write sqlite:///jobs.db",
                Requested(),
                WRONG_USAGE,
            )
        log.say("store_opened", url=info.url, durability=info.durability, session=self._session)
        self._say_how_strong(catalog)
        await self._open(catalog)
        sweeper = Sweeper(self._store, self._session, _proof)
        await self._do(sweeper.prove)
        await self._register(catalog)
        self._start_services(sweeper, catalog)
        self._tell_guardian(ready=True)
        log.say(
            "worker_ready",
            name=self._plan.name,
            tasks=len(catalog.tasks),
            queues=_queues(self._plan),
            lanes=self._claimer.lanes,
            async_jobs=self._plan.async_jobs,
            lease=self._plan.lease,
            session=self._session,
        )

    def _say_how_strong(self, catalog: Catalog) -> None:
        how = "a pid namespace" if catalog.contained else "the process tree"
        log.say("containment", how=how, session=self._session)
        for what in processes.WEAKER:
            log.say("weaker_here", what=what, session=self._session)
        if catalog.threads > 1:
            log.say("started_by_spawn", threads=catalog.threads - 1, session=self._session)

    async def _open(self, catalog: Catalog) -> None:
        self._dispatcher.tasks = {facts.name: facts for facts in catalog.tasks}
        self._claimer = Claimer(
            self._store,
            self._session,
            self._plan,
            self._ledger,
            self._ask,
            self._dispatch,
            self._dispatcher.suspect_room,
        )
        self._dispatcher.claimer = self._claimer
        self._heart = Heart(
            self._session,
            self._plan,
            self._page,
            self._ask,
            self._claimer.untold,
            self._on_renewed,
            lambda reason: self._end(SessionOver(reason, StoreOutage(0.0))),
        )

    async def _register(self, catalog: Catalog) -> None:
        names = {kind: _names(catalog.tasks, kind) for kind in (LOOP, LANE)}
        new = NewSession(
            self._session,
            SessionKind.WORKER,
            self._plan.name,
            socket.gethostname(),
            self._guardian,
            lease=timedelta(seconds=self._plan.lease),
            tasks=frozenset(facts.name for facts in catalog.tasks),
            pools=(names[LOOP], names[LANE]),
            lock=self._lock,
        )
        asked = now()
        answer = await self._ask("register", new)
        self._heart.registered(asked)
        for kind, digest in zip((LOOP, LANE), answer.pools, strict=True):
            if names[kind]:
                self._claimer.digests[kind] = digest
                self._crew.start(kind)

    def _start_services(self, sweeper: Sweeper, catalog: Catalog) -> None:
        retention = {
            State(name): timedelta(seconds=kept) for name, kept in catalog.retention.items()
        }
        pruner = Pruner(self._store, retention)
        promoter = Promoter(self._store)
        self._serve(self._claimer.run())
        self._serve(self._heart.run())
        self._serve(self._report_forever())
        self._serve(self._promote_forever(promoter))
        self._serve(self._sweep_forever(sweeper))
        self._serve(self._prune_forever(pruner))
        loop = asyncio.get_running_loop()
        for topic, heard in (
            (Topic.READY, self._claimer.rang),
            (Topic.CANCEL, self._heart.beat_soon),
        ):
            bell = self._store.listen(topic)
            loop.add_reader(bell.fileno(), _on_bell, bell, heard)
        self._claimer.claiming = True
        self._claimer.wake()

    def _serve(self, service: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(service)
        task.add_done_callback(self._service_ended)
        self._services.append(task)

    def _service_ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, SessionOver):
            self._end(error)
        else:
            # A defect of ours: the kernel's word is better than a worker that half works.
            log.logger.error("a part of the supervisor failed", exc_info=error)
            self._end(SessionOver(f"{type(error).__name__}: {error}", StoreOutage(0.0)))

    def _end(self, end: SessionOver) -> None:
        if not self._over.done():
            self._over.set_result(end)

    async def _first(self, waited_for: "asyncio.Future[Any]") -> Any:
        """What is waited for, unless the session ends before."""
        await asyncio.wait([waited_for, self._over], return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            raise self._over.result()
        return waited_for.result()

    async def _until_over(self) -> None:
        stop = asyncio.ensure_future(self._stop_asked.wait())
        await self._first(stop)

    # -- the store

    async def _call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb of the store, in a thread."""
        pool = self._pools.get(verb, self._pools[""])
        call = partial(getattr(self._store, verb), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    async def _do(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pools[""], work)

    async def _ask(self, verb: str, *args: Any) -> Any:
        """One verb, said again until the store answers; its last word ends the session."""
        while True:
            try:
                answer = await self._call(verb, *args)
            except _FINAL_WORDS as error:
                raise SessionOver(str(error), StoreOutage(0.0), _code_after(error)) from error
            except StoreError as error:
                self._store_failed(error)
                await asyncio.sleep(_STORE_PAUSE_SECONDS)
            else:
                self._store_answered()
                return answer

    def _store_failed(self, error: StoreError) -> None:
        if self._failing_since is None:
            self._failing_since = now()
            left = max(0.0, (self._page.moment - now()) / 1e6)
            log.say("store_failed", error=error, seconds=left, session=self._session)

    def _store_answered(self) -> None:
        if self._failing_since is not None:
            seconds = (now() - self._failing_since) / 1e6
            self._failing_since = None
            log.say("store_back", seconds=seconds, session=self._session)

    # -- jobs

    async def _dispatch(self, holds: list[Hold]) -> None:
        lost: dict[str, dict[str, Any]] = {}
        tasks = self._dispatcher.tasks
        for hold in holds:
            facts = tasks.get(hold.claimed.task)
            if hold.claimed.counters.orphans and facts is not None and facts.has_hook:
                cause = _unheard_loss(await self._ask("events", hold.lease.job))
                if cause is not None:
                    lost[hold.lease.job] = cause.record()
        self._dispatcher.give(holds, lost)

    def _on_begun(self) -> None:
        asyncio.get_running_loop().call_later(BEGUN_SECONDS, self._tell_begun)

    def _tell_begun(self) -> None:
        if any(hold.begun and not hold.told for hold in self._ledger.holds.values()):
            self._heart.beat_soon()

    def _on_renewed(self, answer: Renewed, asked: int) -> None:
        for lease in answer.cancels:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None and hold.stop is None:
                self._dispatcher.cancel(hold, Requested())
        if answer.digest != self._ledger.digest() and not self._claimer.in_flight:
            self._serve(self._compare(self._claimer.exchanges))

    async def _compare(self, exchanges: int) -> None:
        """Ask what the store thinks we hold; hand back what we do not know, end what we lost."""
        held = set(await self._ask("held", self._session))
        if self._claimer.in_flight or self._claimer.exchanges != exchanges:
            return  # it moved meanwhile; the next renewal will tell
        known = self._ledger.leases()
        unknown, missing = held - known, known - held
        if not unknown and not missing:
            return
        log.say(
            "digest_mismatch", unknown=len(unknown), missing=len(missing), session=self._session
        )
        if unknown:
            await self._ask("release", self._session, sorted(unknown), Drained())
        for lease in missing:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None:
                self._dispatcher.cancel(hold, Requested("the lease was lost"))

    # -- what goes on beside

    async def _tick_forever(self) -> None:
        """Show that we are scheduled, keep to the lease, look at every limit."""
        period = min(_TICK_SECONDS, self._plan.frozen / 5)
        while True:
            self._timer.rearm()
            self._page.tick = now()
            if self._page.over and not self._ended:
                seconds = (now() - (self._failing_since or self._page.moment)) / 1e6
                raise SessionOver("its lease ran out", StoreOutage(round(seconds, 1)))
            self._crew.reap()
            self._dispatcher.tick()
            await asyncio.sleep(period)

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            await self._report()

    async def _report(self) -> None:
        while self._dispatcher.reports:
            taken = self._dispatcher.reports[:1000]
            del self._dispatcher.reports[:1000]
            # What a lost attempt said last is not worth a refusal on the job's timeline.
            held = [each for each in taken if self._ledger.find(each.lease.job, each.lease.token)]
            await self._ask("report", self._session, held)

    async def _promote_forever(self, promoter: Promoter) -> None:
        while True:
            due = await self._maintain("promoter", promoter.run)
            pause = 0.5
            if due is not None:
                import time

                pause = min(pause, max(0.0, (due - time.time_ns() // 1000) / 1e6))
            await asyncio.sleep(pause)

    async def _sweep_forever(self, sweeper: Sweeper) -> None:
        beats = 0
        while True:
            await asyncio.sleep(_PROOF_SECONDS)
            await self._maintain("sweeper", sweeper.prove)
            beats += 1
            if beats % 2 == 0 and await self._maintain("sweeper", sweeper.expire) is None:
                sweeper.lost_sight()

    async def _prune_forever(self, pruner: Pruner) -> None:
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            await self._maintain("pruner", pruner.run)

    async def _maintain(self, service: str, work: Callable[[], Any]) -> Any:
        try:
            return await self._do(work)
        except StoreRefused as error:
            log.say("sweep_refused", error=error, session=self._session)
        except LimpetError as error:
            log.say("maintenance_failed", service=service, error=error, session=self._session)
        return None

    # -- guardian and zygote

    def _tell_guardian(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            self._link.send(json.dumps(facts).encode() + b"\n")

    def _hear_guardian(self) -> None:
        try:
            text = self._link.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        if not text:
            asyncio.get_running_loop().remove_reader(self._link)
            self._guardian_gone()
            return
        self._signals += text.count(b"stop\n")
        self._reload = self._reload or b"reload\n" in text
        self._stop_asked.set()

    def _guardian_gone(self) -> None:
        log.say("guardian_gone", session=self._session)
        cause = WorkerKilled(signal=None, process="guardian")
        self._end(SessionOver("the guardian is gone", cause, code=1))

    def _on_zygote(self, frame: Any) -> None:
        if frame[0] == CATALOG:
            if not self._catalog.done():
                self._catalog.set_result(_catalog(frame[1]))
        elif frame[0] == REFUSED:
            print(f"limpet: {frame[1]}", file=sys.stderr)
            self._end(SessionOver(frame[1], Requested(), WRONG_USAGE))
        elif frame[0] == CHANGED and not self._reload:
            log.say("reloading", what=frame[1], session=self._session)
            self._reload = True
            self._stop_asked.set()

    def _on_zygote_death(self, how: str) -> None:
        if self._ended:
            return
        if how == "code 72" and not self._catalog.done():
            self._crew.start_zygote(namespace=False)  # its own /proc was refused
            return
        log.say("zygote_died", how=how, session=self._session)
        number = int(how.split()[1]) if how.startswith("signal") else None
        self._end(SessionOver("the zygote died", WorkerKilled(number, process="zygote")))

    # -- the end

    async def _leave(self) -> int:
        """Drain: stop claiming, finish until the deadline, stop, confirm, release; renew last."""
        self._claimer.claiming = False
        self._heart.draining = True
        self._heart.beat_soon()
        seconds = min(self._plan.drain, self._plan.grace) if self._reload else self._plan.drain
        log.say(
            "worker_draining", running=len(self._ledger.holds), seconds=seconds,
            session=self._session,
        )  # fmt: skip
        until = now() + round(seconds * 1e6)
        while self._ledger.holds and now() < until and self._signals < 2:
            if self._over.done():
                raise self._over.result()
            await asyncio.sleep(0.01)
        released = len(self._ledger.holds)
        if self._signals < 2:
            await self._stop_all()
        if not self._ledger.holds and self._signals < 2:
            await self._say_goodbye()
        self._ended = True
        self._confirm_death()
        for hold in list(self._ledger.holds.values()):
            self._ledger.settle(hold, Release(hold.lease, Drained()))
        await self._finish(Drained())
        log.say("worker_stopped", released=released, session=self._session)
        return ANEW if self._reload and not self._signals else DONE

    async def _stop_all(self) -> None:
        for hold in list(self._ledger.holds.values()):
            if hold.begun:
                self._dispatcher.limits.stop(hold, Drained(), grace=_LAST_GRACE_SECONDS)
        until = now() + round(_LAST_GRACE_SECONDS * 1e6)
        while any(hold.begun for hold in self._ledger.holds.values()) and now() < until:
            await asyncio.sleep(0.005)

    async def _say_goodbye(self) -> None:
        """Let executors run their stop hooks."""
        for executor in list(self._crew.executors.values()):
            executor.end()
        until = now() + round(_GOODBYE_SECONDS * 1e6)
        while self._crew.executors and now() < until:
            await asyncio.sleep(0.005)

    def _confirm_death(self) -> None:
        """Nothing of a job may live when it is handed back."""
        self._timer.rearm()
        self._crew.end_everything()
        self._timer.rearm()

    async def _finish(self, cause: Cause) -> None:
        """Tell every outcome, then that the session is over."""
        with contextlib.suppress(SessionOver):
            await self._report()
        self._claimer.wake()
        until = now() + round(max(self._plan.lease, 2.0) * 1e6)
        while not self._ledger.is_empty and now() < until:
            if self._over.done() and isinstance(self._over.result(), SessionOver):
                break
            await asyncio.sleep(0.002)
        with contextlib.suppress(LimpetError):
            await asyncio.wait_for(self._call("end", self._session, cause), 2.0)
            await self._do(lambda: recover_all(self._store, self._session, cause, self._plan.name))
        self._store.close()

    async def _lose(self, end: SessionOver) -> int:
        """The session is over against its will: end everything, tell what can be told."""
        self._ended = True
        self._confirm_death()
        if end.code == WRONG_USAGE or not hasattr(self, "_claimer"):
            return end.code
        log.say("session_over", reason=end, session=self._session)
        self._claimer.claiming = False
        for task in self._services[1:]:
            task.cancel()
        await self._tell_losses(end.cause)
        return end.code

    async def _tell_losses(self, cause: Cause) -> None:
        """Mark the session dead with its cause; an uncharged one hands the jobs back."""
        until = now() + round(self._plan.lease * 1e6)
        while now() < until:
            try:
                await self._do(lambda: self._store.end(self._session, cause))
                await self._do(
                    lambda: recover_all(self._store, self._session, cause, self._plan.name)
                )
                return
            except LimpetError:
                self._page.tick = now()
                await asyncio.sleep(_STORE_PAUSE_SECONDS)


def _proof(session: Session) -> bool:
    lock = session.lock
    return lock is not None and locks.proves_death(session.id, lock.path, lock.inode, lock.nonce)


def _unheard_loss(events: Any) -> Cause | None:
    """The loss that no attempt has answered to yet, if there is one."""
    for event in reversed(events):
        if event.event in (EventName.ORPHANED, EventName.RECOVERED):
            return event.cause if event.cause is not None and event.cause.charged else None
        if event.event in (EventName.RETRIED, EventName.SNOOZED, EventName.REOPENED):
            return None
    return None


def _names(tasks: list[TaskFacts], kind: str) -> frozenset[str]:
    return frozenset(facts.name for facts in tasks if facts.in_lane == (kind == LANE))


def _catalog(raw: list[Any]) -> Catalog:
    url, tasks, *rest = raw
    return Catalog(url, [TaskFacts(*facts) for facts in tasks], *rest)


def _code_after(error: LimpetError) -> int:
    return WRONG_USAGE if isinstance(error, SchemaMismatch | StoreRefused | InvalidOption) else ANEW


def _queues(plan: Plan) -> str:
    if not plan.queues:
        return "all queues"
    return ", ".join(f"{name}={most}" if most else name for name, most in plan.queues.items())


def _on_bell(bell: Any, heard: Callable[[], None]) -> None:
    bell.wait(timedelta(0))
    heard()


def _nothing() -> None:
    """Do nothing, and let nothing happen."""


def main() -> int:
    order = json.loads(os.environ.pop("LIMPET_ORDER"))
    plan = from_environment()
    for descriptor in order["descriptors"].values():
        os.set_inheritable(descriptor, False)
    from limpet.worker.voice import speak

    speak(plan.log_style, plan.log_level)

    async def live() -> int:
        return await Supervisor(plan, order).run()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(live())
    # Not through the interpreter's end: a thread that hangs in the store must not keep us.
    sys.stderr.flush()
    os._exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
