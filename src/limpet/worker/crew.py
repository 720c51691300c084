"""The zygote as the supervisor sees it: starts executors, ends them, tells how they died."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

from limpet import log
from limpet.domain.cause import Cause
from limpet.domain.transition import Complete
from limpet.host import marks, processes
from limpet.worker import death
from limpet.worker.executor_link import Executor
from limpet.worker.frames import (
    ADOPTED,
    DIED,
    FAILED,
    FORK,
    KILL,
    PING,
    PLACE,
    PONG,
    SIGNAL,
    Channel,
    Splitter,
)
from limpet.worker.page import now
from limpet.worker.plan import Order, Plan


class Listener(Protocol):
    """Who hears of executors, and what they say."""

    def on_start(self, executor: Executor) -> None: ...
    def on_done(self, executor: Executor, completes: list[Complete]) -> None: ...
    def on_frame(self, executor: Executor, frame: Any) -> None: ...
    def on_death(self, executor: Executor, cause: Cause | None) -> None: ...


class Crew:
    """The zygote and its executors."""

    listener: Listener  # hears of all executors; set before the first is started

    def __init__(
        self,
        plan: Plan,
        session: str,
        page: int,
        lock: int,
        on_zygote: Callable[[Any], None],
        on_zygote_death: Callable[[int | None], None],
    ) -> None:
        """`on_zygote`: hears what the zygote says of the app. `on_zygote_death`: hears its exit
        code, or None if it lives and does not answer.
        """
        self._plan = plan
        self._session = session
        self._page = page
        self._lock = lock
        self._on_zygote = on_zygote
        self._on_zygote_death = on_zygote_death
        self.executors: dict[int, Executor] = {}
        self._number = 0
        self._pid = 0
        self._splitter = Splitter()
        self._answers = False
        self._heard_at = self._asked_at = now()
        self._starting: set[asyncio.Task[None]] = set()

    # -- the zygote

    def ask_zygote(self) -> None:
        """Ask it now and then; one that does not answer can neither start nor end executors."""
        if not self._answers:
            return
        moment, patience = now(), round(self._plan.deaf * 1e6)
        if moment - self._heard_at > patience:
            self._answers = False
            self._on_zygote_death(None)
        elif moment - self._asked_at > patience // 4:
            self._asked_at = moment
            self._tell(PING)

    def start_zygote(self, *, namespace: bool) -> None:
        """Start the zygote; it says what it found when it has imported the app."""
        ours, theirs = socket.socketpair()
        order = Order(theirs.fileno(), self._page, self._lock, namespace=namespace)
        told = {**self._plan.environment(order._asdict()), marks.MARK: self._session}
        process = processes.spawn("limpet.worker.zygote", {**os.environ, **told}, order.descriptors)
        theirs.close()
        self._pid = process.pid
        # Reaped by number; the object would only complain that it was not.
        process.returncode = 0
        self._channel = Channel(ours)
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._hear_zygote)

    def _hear_zygote(self) -> None:
        try:
            data = self._channel.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel.sock)
            loop.call_later(0.002, self.reap)
            return
        self._heard_at = now()
        for frame in self._splitter.feed(data):
            self._zygote_said(frame)

    def _zygote_said(self, frame: Any) -> None:
        if frame[0] == PLACE:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)  # it has left; what it forked is our own child now
            self._pid = frame[1]
            self._tell(ADOPTED)
        elif frame[0] == DIED:
            if executor := self.executors.get(frame[1]):
                code = os.waitstatus_to_exitcode(frame[2])
                executor.died(death.of_executor(code, self._plan.max_rss, *frame[3:]))
        elif frame[0] == FAILED:
            if executor := self.executors.get(frame[1]):
                executor.start_error = frame[2]
                executor.died(None)
        elif frame[0] == PONG:
            self._answers = True  # it has imported the app, and only listens now
        else:
            self._on_zygote(frame)

    def reap(self) -> None:
        """Reap dead children; tell if the zygote is among them."""
        for pid, status in processes.reaped():
            if pid == self._pid:
                # One that moved into its own namespace has said so before this one left.
                self._hear_zygote()
            if pid == self._pid:
                self._pid = 0
                self._on_zygote_death(os.waitstatus_to_exitcode(status))

    def signal(self, executor: Executor, number: int) -> None:
        self._tell(SIGNAL, executor.number, number)

    def kill(self, executor: Executor) -> None:
        self._tell(KILL, executor.number)

    def _tell(self, *frame: Any, descriptors: tuple[int, ...] = ()) -> None:
        # Small, and the zygote does nothing but listen: this does not block for long.
        self._channel.sock.setblocking(True)
        try:
            self._channel.send(*frame, descriptors=descriptors)
        except OSError:
            pass  # it is gone, which the kernel tells by other ways
        finally:
            self._channel.sock.setblocking(False)

    def end_everything(self, between: Callable[[], None]) -> bool:
        """Kill the zygote and everything below; False if something would not die."""
        me = os.getpid()
        gone = processes.end_all(lambda: processes.descendants(me), 1.0, between)
        return gone and marks.end_marked(self._session, 0.5, between)

    async def heard_out(self, seconds: float = 0.2) -> None:
        """Until what dead executors said has been read."""
        until = now() + round(seconds * 1e6)
        while any(not each.is_silent for each in self.executors.values()) and now() < until:
            await asyncio.sleep(0.002)

    # -- executors

    def of_kind(self, kind: str) -> list[Executor]:
        return [each for each in self.executors.values() if each.kind == kind]

    def start(self, kind: str) -> Executor:
        """Start one more executor; jobs may be given to it at once."""
        self._number += 1
        executor = Executor(self._number, kind, self)
        self.executors[self._number] = executor
        self._tell(FORK, executor.number, kind, descriptors=tuple(executor.handed_over()))
        connecting = asyncio.get_running_loop().create_task(executor.connect())
        self._starting.add(connecting)
        connecting.add_done_callback(self._starting.discard)
        self.listener.on_start(executor)
        log.say("executor_started", kind=kind, executor=executor.number, session=self._session)
        return executor
