"""The supervisor: the only process of a worker that talks to the store.

It claims, renews, settles and sweeps, and never imports user code. Whatever ends its session (a
lost lease, a store that was rolled back, a dead zygote) ends the supervisor too. Then the guardian
starts the next one, so that every session begins in the same way.
"""

import asyncio
import gc
import os
import socket
from datetime import timedelta
from functools import partial
from typing import Any

from limpet import log
from limpet.domain.cause import Requested, WorkerKilled
from limpet.domain.errors import InvalidOption
from limpet.domain.session import NewSession, SessionKind, SessionLock
from limpet.host import processes
from limpet.host.proofs import forget, proof
from limpet.log.output import exit_process, start_log
from limpet.maintenance.declared import Declarer
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.bell import Topic
from limpet.storage.registry import open_store
from limpet.worker.supervisor import death
from limpet.worker.supervisor.claimer import Claimer
from limpet.worker.supervisor.declaring import declare
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.drain import Drain
from limpet.worker.supervisor.executors import AppFrame, Executors
from limpet.worker.supervisor.gatekeeper import Gatekeeper
from limpet.worker.supervisor.guardian_link import GuardianLink, StopRequest
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.placement import Placement
from limpet.worker.supervisor.reconciler import Reconciler
from limpet.worker.supervisor.request_server import RequestServer
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.services import Services
from limpet.worker.supervisor.session_parts import Defect, SessionParts
from limpet.worker.supervisor.store_line import SessionOver, StoreLine
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.catalog import Catalog
from limpet.worker.wire.frames import KINDS, LANE, LOOP, CatalogFrame, ChangedFrame, RefusedFrame
from limpet.worker.wire.page import Page, now
from limpet.worker.wire.plan import (
    ANEW,
    DONE,
    WRONG_USAGE,
    Plan,
    from_environment,
    order_from_environment,
)

_TICK_SECONDS = 0.05
# With a lease longer than this, what a failover of the store costs is logged.
_LONG_LEASE_SECONDS = 60.0


class Supervisor:
    """One session."""

    def __init__(self, plan: Plan, order: dict[str, Any]) -> None:
        self._plan = plan
        self._session: str = order["session"]
        self._lock = SessionLock(**order["lock"])
        self._guardian: int = order["guardian"]
        self._is_first: bool = order["first"]
        descriptors = order["descriptors"]
        self._stop = StopRequest()
        self._page = Page(descriptors["page"], writable=True)
        self._link = GuardianLink(
            descriptors["link"], self._guardian, self._stop, self._guardian_gone
        )
        loop = asyncio.get_running_loop()
        self._parts = SessionParts(debug=plan.debug)
        self._catalog: asyncio.Future[Catalog] = loop.create_future()
        self._registered = False
        self._stood_still_us = 0
        self._line: StoreLine | None = None
        self._executors = Executors(
            plan, self._session, descriptors["page"], descriptors["whole"], zygote_listener=self
        )

    # -- a life

    async def run(self) -> int:
        """The whole session; returns the exit code for the guardian."""
        self._settle_in()
        try:
            begin = asyncio.ensure_future(self._begin())
            stop = asyncio.ensure_future(self._stop.wait())
            await self._parts.any_of(begin, stop)
            if not begin.done() and not self._registered:
                begin.cancel()
                await self._confirm_death()
                return DONE
            await self._parts.first(begin)
            await self._parts.first(stop)
            return await self._leave()
        except SessionOver as end:
            return await self._lose(end)

    def _settle_in(self) -> None:
        processes.set_name("limpet-super")
        asyncio.get_running_loop().set_exception_handler(self._parts.callback_failed)
        processes.adopt_orphans()
        self._link.follow()
        self._timer = processes.KernelTimer(self._plan.freeze_seconds, asleep=True)
        self._parts.serve(self._tick_forever())

    async def _begin(self) -> None:
        """Import, open, sweep, register: in this order, so that no job is claimed too early."""
        self._executors.start_zygote(namespace=self._plan.settings.pid_namespace)
        catalog = await self._parts.first(self._catalog)
        files = processes.allow_many_files()  # executors have the limit that the user gave them
        scope = await self._open_store(catalog.url)
        _log_containment(catalog, self._session)
        self._put_together(scope, catalog, files)
        line = scope.line
        sweeper = Sweeper(line.store, self._session, proof, forget=forget)
        await line.persist(sweeper.prove)
        await self._register(scope, catalog)
        declarer = Declarer(
            line.store, self._plan.app, catalog.schedules, removes=catalog.removes_schedules
        )
        await line.persist(declarer.begin)
        self._start(scope, sweeper, declarer, catalog)
        self._link.send(ready=True)
        plan, lanes = self._plan, self._placement.most[LANE]
        log.emit(
            "worker_ready", name=plan.name, tasks=len(catalog.tasks), queues=plan.queues_in_words,
            lanes=lanes, async_jobs=plan.settings.async_jobs, lease=plan.settings.lease,
            session=self._session,
        )  # fmt: skip

    async def _open_store(self, url: str) -> SessionScope:
        try:
            # In a thread, as importing a driver may take longer than the loop may stand still.
            store = await asyncio.to_thread(open_store, url)
        except InvalidOption as error:
            raise SessionOver(str(error), Requested(), WRONG_USAGE) from error
        line = StoreLine(
            store,
            self._session,
            self._page,
            first=self._is_first,
            lease_seconds=self._plan.settings.lease,
        )
        self._line = line
        self._link.send(url=url)
        await line.request("promote")  # the first write creates a store that does not exist yet
        info = await line.request("info")
        if info.in_process:
            reason = f"the store {url} is in memory, which processes do not share; write "
            raise SessionOver(f"{reason}for example sqlite:///jobs.db.", Requested(), WRONG_USAGE)
        log.emit("store_opened", url=info.url, durability=info.durability, session=self._session)
        if info.fails_over and self._plan.settings.lease > _LONG_LEASE_SECONDS:
            log.emit("long_lease", lease=self._plan.settings.lease, session=self._session)
        return SessionScope(self._plan, self._session, self._page, line, Ledger())

    def _put_together(self, scope: SessionScope, catalog: Catalog, files: int) -> None:
        """Make the parts, each from those that were made before it."""
        executors, parts = self._executors, self._parts
        tasks = {facts.name: facts for facts in catalog.tasks}
        self._services = Services(scope, parts)
        self._placement = Placement(executors, self._plan, files, scope.ledger)
        lanes, wanted = self._placement.most[LANE], self._placement.wanted_lanes
        if lanes < wanted:
            log.emit("few_files", lanes=lanes, wanted=wanted, files=files, session=self._session)
        self._heart = Heartbeat(scope)
        self._demand = Demand()
        request_server = RequestServer(scope, self._heart)
        self._dispatcher = Dispatcher(
            scope, tasks, executors, self._placement, self._demand, request_server
        )
        executors.listener = self._dispatcher
        self._claimer = Claimer(
            scope, self._placement, self._services, self._heart, self._dispatcher, self._demand
        )
        self._reconciler = Reconciler(scope, parts, self._dispatcher, self._claimer)
        self._gatekeeper = Gatekeeper(scope, catalog, self._dispatcher.give_way)
        self._drain = Drain(
            scope, parts, executors, self._dispatcher, self._claimer, self._heart, self._services
        )

    async def _register(self, scope: SessionScope, catalog: Catalog) -> None:
        line = scope.line
        names = {kind: catalog.names(in_lane=kind == LANE) for kind in (LOOP, LANE)}
        new = NewSession(
            self._session, SessionKind.WORKER, self._plan.name, socket.gethostname(),
            self._guardian, lease=timedelta(seconds=self._plan.settings.lease),
            tasks=frozenset(facts.name for facts in catalog.tasks),
            pools=(names[LOOP], names[LANE]), lock=self._lock,
            schedules=frozenset(catalog.schedules),
        )  # fmt: skip
        await line.persist(partial(declare, line.store, catalog))
        scope.ledger.observer.watch(catalog.breakers)
        await line.request("prepare_for", new.lease)
        sent_at = now()
        answer = await line.request("register", new)
        self._heart.registered(sent_at)
        self._gatekeeper.registered(answer.epoch)
        self._registered = True
        digests = {
            kind: digest
            for kind, digest in zip((LOOP, LANE), answer.pools, strict=True)
            if names[kind] and self._placement.most[kind]
        }
        for kind in (kind for kind in KINDS if kind in digests):
            self._executors.start(kind)
        self._claimer.begin(digests, catalog.bounded(), self._gatekeeper.gate)

    def _start(
        self, scope: SessionScope, sweeper: Sweeper, declarer: Declarer, catalog: Catalog
    ) -> None:
        line, heart = scope.line, self._heart
        loops = self._services.all(catalog, sweeper, declarer, self._claimer.bound)
        own = (self._claimer.run(), heart.run(self._reconciler.renewed), self._gatekeeper.run())
        for part in (*own, *loops):
            self._parts.serve(part)
        self._parts.serve(line.listen_for_jobs(self._demand.rang))
        self._parts.serve(line.listen(Topic.CANCEL, heart.beat_soon))

    async def _tick_forever(self) -> None:
        """Show that the supervisor is scheduled, keep to the lease, look at every limit."""
        period_seconds = min(_TICK_SECONDS, self._plan.freeze_seconds / 5)
        while True:
            self._stood_still_us = now() - self._page.alive_at if self._page.alive_at else 0
            self._show_life()
            if self._page.over and not self._executors.is_ended:
                self._lease_ran_out()
            self._executors.reap()
            if not self._executors.is_ended:
                self._executors.ping_zygote()
                if self._registered and self._dispatcher.tick():
                    self._heart.jobs_have_begun()
            if self._plan.settings.burst and self._registered and self._claimer.found_nothing:
                self._stop.make()
            await asyncio.sleep(period_seconds)

    def _lease_ran_out(self) -> None:
        known = (self._line and self._line.failing_since, self._heart.unanswered_since)
        silent_us = max((now() - since for since in known if since), default=0)
        cause = death.of_lease(silent_us / 1e6, self._stood_still_us / 1e6)
        self._parts.end(SessionOver("its lease ran out", cause))

    # -- guardian and zygote

    def _guardian_gone(self) -> None:
        if not self._parts.are_over():
            log.emit("guardian_gone", session=self._session)
            cause = WorkerKilled(signal=None, process="guardian")
            self._parts.end(SessionOver("the guardian is gone", cause, code=1))

    def on_app(self, frame: AppFrame) -> None:
        """The zygote reports something of the app."""
        match frame:
            case CatalogFrame() | RefusedFrame() if self._catalog.done():
                raise NotUnderstood("the app was imported twice")
            case CatalogFrame(catalog):
                self._executors.expect_results(catalog.payload_limit)
                self._catalog.set_result(catalog)
            case RefusedFrame(reason):
                self._parts.end(SessionOver(reason, Requested(), WRONG_USAGE))
            case ChangedFrame(file) if not self._stop.reload:
                log.emit("reloading", what=file, session=self._session)
                self._stop.make(reload=True)

    def on_garbled_zygote(self, error: NotUnderstood) -> None:
        """User code, which runs in the zygote to import the app, has written on its socket."""
        how = f"it sent what cannot be understood: {error}"
        if not self._catalog.done():
            self._refuse_import(f"importing {self._plan.app} spoilt the process ({how})")
            return
        log.emit("zygote_died", how=how, session=self._session)
        self._parts.end(SessionOver("the zygote cannot be understood", death.of_zygote(0, 0.0)))

    def on_zygote_death(self, code: int | None) -> None:
        """The zygote has exited with that code; None if it lives and does not answer."""
        if self._executors.is_ended:
            return
        if code == processes.NO_OWN_PROC and not self._catalog.done():
            self._executors.start_zygote(namespace=False)
            return
        if self._page.over:
            self._lease_ran_out()  # that is why the zygote ended itself, or was killed
            return
        how = death.of_zygote_in_words(code)
        if not self._catalog.done():
            self._refuse_import(f"importing {self._plan.app} ended the process ({how})")
            return
        log.emit("zygote_died", how=how, session=self._session)
        self._parts.end(
            SessionOver("the zygote died", death.of_zygote(code, self._plan.ping_timeout_seconds))
        )

    def _refuse_import(self, reason: str) -> None:
        self._parts.end(SessionOver(reason, Requested(), WRONG_USAGE if self._is_first else ANEW))

    # -- the end

    async def _leave(self) -> int:
        """Stop on request, because nothing is left to do, or to load new code."""
        if self._plan.settings.burst and (left := self._claimer.too_heavy):
            server, tasks = self._gatekeeper.server, ", ".join(left)
            log.emit("left_behind", server=server, tasks=tasks, session=self._session)
        anew = self._stop.reload and not self._stop.signals
        seconds = self._plan.settings.grace if anew else self._plan.settings.drain
        await self._drain.run(seconds, self._stop)
        if not await self._confirm_death():
            return 1
        await self._drain.release_all()
        log.emit("worker_stopped", released=self._drain.released, session=self._session)
        return ANEW if anew and not self._stop.signals else DONE

    async def _lose(self, end: SessionOver) -> int:
        """The session is lost: kill everything, then send the outcomes that are known."""
        if isinstance(end, Defect):
            self._link.send(defect=True)
        if not await self._confirm_death():
            return 1
        if end.code == WRONG_USAGE:
            log.emit("refused", reason=end, session=self._session)
        elif self._registered:
            until = now() + round(self._plan.settings.lease * 1e6)
            alone = end.code != ANEW  # no guardian will pass on a signal to stop
            if not alone:
                log.emit("session_over", reason=end, session=self._session)

            def give_up() -> bool:
                return bool(self._stop.signals) or (alone and now() > until)

            if not await self._drain.lose(end.cause, give_up):
                return 1  # the guardian will try to report the death
        return end.code

    async def _confirm_death(self) -> bool:
        """Kill every process of the jobs before they are handed back; read what they sent last.

        False if a process did not die: then no job is handed back, and the lease decides.
        """
        gone = self._executors.end_everything(self._show_life)
        await self._executors.wait_until_read()
        return gone

    def _show_life(self) -> None:
        self._timer.rearm()
        self._page.alive_at = now()


def _log_containment(catalog: Catalog, session: str) -> None:
    """Log how processes that jobs leave behind are ended, and what is weaker on this system."""
    how = "a pid namespace" if catalog.contained else "the process tree"
    log.emit("containment", how=how, session=session)
    for what in processes.WEAKER:
        log.emit("weaker_here", what=what, session=session)
    if catalog.threads > 1:
        log.emit("started_by_spawn", threads=catalog.threads - 1, session=session)


def main() -> None:
    """Be the supervisor that the guardian has started."""
    order = order_from_environment()
    plan = from_environment()
    for descriptor in order["descriptors"].values():
        os.set_inheritable(descriptor, False)
    start_log(plan.log_style, plan.log_level)

    # Holds come and go by the thousand and are part of no cycle: collect garbage less often.
    gc.freeze()
    gc.set_threshold(20_000)

    async def live() -> None:
        code = await Supervisor(plan, order).run()
        # Without the interpreter's shutdown, which would wait for a thread that hangs in the store.
        exit_process(code)

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


if __name__ == "__main__":
    main()
