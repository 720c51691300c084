"""The zygote as the supervisor sees it: starts executors, ends them, tells how they died."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

from limpet import log
from limpet.domain.cause import Cause
from limpet.domain.transition import Complete
from limpet.host import marks, processes
from limpet.settings.general import DEFAULT_PAYLOAD_LIMIT
from limpet.worker.supervisor import death
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.store_line import SessionOver
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.frames import (
    FROM_ZYGOTE,
    AdoptedFrame,
    BlockedFrame,
    CatalogFrame,
    ChangedFrame,
    DiedFrame,
    FailedFrame,
    ForkFrame,
    FromZygote,
    KillFrame,
    Kind,
    PingFrame,
    PlaceFrame,
    PongFrame,
    RefusedFrame,
    SignalFrame,
    Splitter,
    Spoken,
    ToZygote,
    from_executor,
    send,
)
from limpet.worker.wire.page import now
from limpet.worker.wire.plan import Order, Plan

AppFrame: TypeAlias = CatalogFrame | RefusedFrame | ChangedFrame
"""What the zygote says of the app."""

# Between two looks whether a zygote that goes on elsewhere has left the place where it was.
_LOOK_SECONDS = 0.002


class Listener(Protocol):
    """Who hears of executors, and what they say."""

    def on_start(self, executor: Executor) -> None: ...
    def on_done(self, executor: Executor, completes: list[Complete]) -> int: ...
    def on_frame(self, executor: Executor, frame: Spoken) -> None: ...
    def on_blocked(self, executor: Executor, frame: BlockedFrame) -> None: ...
    def on_room(self) -> None: ...
    def on_death(self, executor: Executor, cause: Cause | None) -> None: ...


class ZygoteListener(Protocol):
    """Who hears of the zygote, and what it says of the app."""

    def on_app(self, frame: AppFrame) -> None: ...
    def on_zygote_death(self, code: int | None) -> None:
        """It has left with that exit code, or lives and does not answer."""

    def on_garbled_zygote(self, error: NotUnderstood) -> None: ...


class Executors:
    """The zygote and its executors."""

    listener: Listener  # hears of all executors; set before the first is started

    def __init__(
        self,
        plan: Plan,
        session: str,
        page: int,
        lock: int,
        zygote_listener: ZygoteListener,
    ) -> None:
        self._plan = plan
        self._session = session
        self._page = page
        self._lock = lock
        self._zygote_listener = zygote_listener
        self._expects_place = self._is_garbled = False
        # As large as the results of the app may be; known once it is imported.
        self.from_executor = from_executor(DEFAULT_PAYLOAD_LIMIT)
        self.executors: dict[int, Executor] = {}
        self._number = 0
        self.is_ended = False  # everything is being ended, for the sake of no job
        self._pid = self._next_pid = 0
        self._splitter = Splitter(FROM_ZYGOTE)
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
            self._zygote_listener.on_zygote_death(None)
        elif moment - self._asked_at > patience // 4:
            self._asked_at = moment
            self._tell(PingFrame())

    def start_zygote(self, *, namespace: bool) -> None:
        """Start the zygote; it says what it found when it has imported the app."""
        ours, theirs = socket.socketpair()
        order = Order(theirs.fileno(), self._page, self._lock, namespace=namespace)
        told = {**self._plan.environment(order._asdict()), marks.MARK: self._session}
        process = processes.spawn(
            "limpet.worker.executor.zygote", {**os.environ, **told}, order.descriptors
        )
        theirs.close()
        self._pid, self._next_pid = process.pid, 0
        # Reaped by number; the object would only complain that it was not.
        process.returncode = 0
        self._channel = ours
        self._splitter = Splitter(FROM_ZYGOTE)
        self._expects_place, self._is_garbled = namespace, False
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._hear_zygote)

    def _hear_zygote(self) -> None:
        try:
            data = self._channel.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._channel)
            loop.call_later(0.002, self.reap)
            return
        self._heard_at = now()
        if self._is_garbled:
            return
        try:
            for frame in self._splitter.feed(data):
                self._act_on(frame)
        except NotUnderstood as error:
            self._garbled_zygote(error)

    def _garbled_zygote(self, error: NotUnderstood) -> None:
        self._is_garbled = True
        self._zygote_listener.on_garbled_zygote(error)

    def _act_on(self, frame: FromZygote) -> None:
        match frame:
            case PlaceFrame(pid):
                self._follow_to(pid)
            case DiedFrame(number, status, over, frozen, by_kernel, together):
                if not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                    raise NotUnderstood(f"nothing dies with the status {status}")
                if executor := self._started(number):
                    code = os.waitstatus_to_exitcode(status)
                    limit = self._plan.settings.max_rss
                    executor.died_with = together
                    executor.died(death.of_executor(code, limit, over, frozen, by_kernel))
            case FailedFrame(number, error):
                if executor := self._started(number):
                    executor.start_error = error
                    executor.died(None)
            case PongFrame():
                self._answers = True  # it has imported the app, and only listens now
            case CatalogFrame() | RefusedFrame() | ChangedFrame():
                self._zygote_listener.on_app(frame)
            case _:
                assert_never(frame)

    def _started(self, number: int) -> Executor | None:
        """The executor of that number, None if it is buried."""
        if not 1 <= number <= self._number:
            raise NotUnderstood(f"executor {number} was never started")
        return self.executors.get(number)

    def _follow_to(self, pid: int) -> None:
        """The zygote goes on in a namespace of its own; the process that it was is leaving."""
        if not self._expects_place or pid < 1:
            raise NotUnderstood("the zygote cannot go on elsewhere now")
        self._expects_place = False
        self._next_pid = pid
        self._wait_until_left(self._pid, now() + round(self._plan.deaf * 1e6))

    def _wait_until_left(self, pid: int, until: int) -> None:
        """Until the process that the zygote was has left; nothing else waits for that."""
        if not self._next_pid or self._pid != pid:
            return
        if now() > until:
            self._next_pid = 0
            log.emit("zygote_stays", seconds=self._plan.deaf, session=self._session)
            raise SessionOver("the zygote has not left the place where it was")
        loop = asyncio.get_running_loop()
        loop.call_later(_LOOK_SECONDS, self._look_whether_left, pid, until)

    def _look_whether_left(self, pid: int, until: int) -> None:
        self.reap()
        self._wait_until_left(pid, until)

    def _adopt(self, is_dead: bool) -> None:
        """The process that the zygote was is reaped, so that the next one is a child of ours."""
        self._pid, self._next_pid = self._next_pid, 0
        if not is_dead and self._pid not in processes.children_of_self():
            self._garbled_zygote(NotUnderstood("the zygote cannot be where it says"))
        else:
            self._tell(AdoptedFrame())

    def expect_results(self, most_bytes: int) -> None:
        """Executors started from now on may say what is as large as that."""
        self.from_executor = from_executor(most_bytes)

    def reap(self) -> None:
        """Reap dead children; tell if the zygote is among them."""
        dead = dict(processes.reaped())
        while (status := dead.pop(self._pid, None)) is not None:
            if not self._next_pid:
                # One that moved into its own namespace has said so before this one left.
                self._hear_zygote()
            if self._next_pid:
                self._adopt(self._next_pid in dead)
            else:
                self._pid = 0
                self._zygote_listener.on_zygote_death(os.waitstatus_to_exitcode(status))

    def signal(self, executor: Executor, number: int) -> None:
        self._tell(SignalFrame(executor.number, number))

    def kill(self, executor: Executor) -> None:
        self._tell(KillFrame(executor.number))

    def _tell(self, frame: ToZygote, descriptors: tuple[int, ...] = ()) -> None:
        # Small, and the zygote does nothing but listen: this does not block for long.
        self._channel.setblocking(True)
        try:
            send(self._channel, frame, descriptors)
        except OSError:
            pass  # it is gone, which the kernel tells by other ways
        finally:
            self._channel.setblocking(False)

    def end_everything(self, between: Callable[[], None]) -> bool:
        """Kill the zygote and everything below; False if something would not die."""
        self.is_ended = True
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

    def start(self, kind: Kind) -> Executor:
        """Start one more executor; jobs may be given to it at once."""
        self._number += 1
        executor = Executor(self._number, kind, self)
        self.executors[self._number] = executor
        self._tell(ForkFrame(executor.number, kind), tuple(executor.handed_over()))
        connecting = asyncio.get_running_loop().create_task(executor.connect())
        self._starting.add(connecting)
        connecting.add_done_callback(self._starting.discard)
        self.listener.on_start(executor)
        log.emit("executor_started", kind=kind, executor=executor.number, session=self._session)
        return executor
