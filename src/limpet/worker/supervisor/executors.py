"""The zygote as the supervisor sees it: starts executors, ends them, reports how they died."""

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
    SingleFrame,
    Splitter,
    ToZygote,
    from_executor,
    send,
)
from limpet.worker.wire.page import now
from limpet.worker.wire.plan import Order, Plan

AppFrame: TypeAlias = CatalogFrame | RefusedFrame | ChangedFrame
"""What the zygote reports of the app."""

# Between two looks whether the old process of a zygote that goes on as another one has exited.
_LOOK_SECONDS = 0.002


class Listener(Protocol):
    """Is called when executors start, die, or send something."""

    def on_start(self, executor: Executor) -> None: ...
    def on_done(self, executor: Executor, completes: list[Complete]) -> int: ...
    def on_frame(self, executor: Executor, frame: SingleFrame) -> None: ...
    def on_blocked(self, executor: Executor, frame: BlockedFrame) -> None: ...
    def on_writable(self) -> None: ...
    def on_death(self, executor: Executor, cause: Cause | None) -> None: ...


class ZygoteListener(Protocol):
    """Is called when the zygote dies, or reports something of the app."""

    def on_app(self, frame: AppFrame) -> None: ...
    def on_zygote_death(self, code: int | None) -> None:
        """The zygote has exited with that code; None if it lives and does not answer."""

    def on_garbled_zygote(self, error: NotUnderstood) -> None: ...


class Executors:
    """The zygote and its executors."""

    listener: Listener  # set before the first executor is started

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
        # The decoder of executors' frames. The app's limit for results is known after its import.
        self.from_executor = from_executor(DEFAULT_PAYLOAD_LIMIT)
        self.by_number: dict[int, Executor] = {}
        self._number = 0
        self.is_ended = False  # all executors are being killed, because the session ends
        self._pid = self._next_pid = 0
        self._splitter = Splitter(FROM_ZYGOTE)
        self._answers = False
        self._received_at = self._pinged_at = now()
        self._starting: set[asyncio.Task[None]] = set()

    # -- the zygote

    def ping_zygote(self) -> None:
        """Ping the zygote now and then: if it is stuck, no executor can be started or ended."""
        if not self._answers:
            return
        moment, timeout_us = now(), round(self._plan.ping_timeout_seconds * 1e6)
        if moment - self._received_at > timeout_us:
            self._answers = False
            self._zygote_listener.on_zygote_death(None)
        elif moment - self._pinged_at > timeout_us // 4:
            self._pinged_at = moment
            self._send(PingFrame())

    def start_zygote(self, *, namespace: bool) -> None:
        """Start the zygote; it sends the catalog of the app when it has imported it."""
        ours, theirs = socket.socketpair()
        order = Order(theirs.fileno(), self._page, self._lock, namespace=namespace)
        variables = {**self._plan.environment(order._asdict()), marks.MARK: self._session}
        process = processes.spawn(
            "limpet.worker.executor.zygote", {**os.environ, **variables}, order.descriptors
        )
        theirs.close()
        self._pid, self._next_pid = process.pid, 0
        # `reap` reaps by process id. Without a return code the Popen object would warn.
        process.returncode = 0
        self._channel = ours
        self._splitter = Splitter(FROM_ZYGOTE)
        self._expects_place, self._is_garbled = namespace, False
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._read_zygote)

    def _read_zygote(self) -> None:
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
        self._received_at = now()
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
            case DiedFrame(number, status, used_bytes, frozen_seconds, by_kernel, together):
                if not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                    raise NotUnderstood(f"nothing dies with the status {status}")
                if executor := self._started(number):
                    code = os.waitstatus_to_exitcode(status)
                    limit_bytes = self._plan.settings.max_rss
                    executor.died_with = together
                    cause = death.of_executor(
                        code, limit_bytes, used_bytes, frozen_seconds, by_kernel
                    )
                    executor.died(cause)
            case FailedFrame(number, error):
                if executor := self._started(number):
                    executor.start_error = error
                    executor.died(None)
            case PongFrame():
                self._answers = True  # it has imported the app, and only serves requests now
            case CatalogFrame() | RefusedFrame() | ChangedFrame():
                self._zygote_listener.on_app(frame)
            case _:
                assert_never(frame)

    def _started(self, number: int) -> Executor | None:
        """The executor of that number; None if its death was handled already."""
        if not 1 <= number <= self._number:
            raise NotUnderstood(f"executor {number} was never started")
        return self.by_number.get(number)

    def _follow_to(self, pid: int) -> None:
        """The zygote goes on as a process in a pid namespace; its old process is about to exit."""
        if not self._expects_place or pid < 1:
            raise NotUnderstood("the zygote cannot go on elsewhere now")
        self._expects_place = False
        self._next_pid = pid
        self._wait_until_left(self._pid, now() + round(self._plan.ping_timeout_seconds * 1e6))

    def _wait_until_left(self, pid: int, until: int) -> None:
        """Wait, without blocking the event loop, until the zygote's old process has exited."""
        if not self._next_pid or self._pid != pid:
            return
        if now() > until:
            self._next_pid = 0
            log.emit("zygote_stays", seconds=self._plan.ping_timeout_seconds, session=self._session)
            raise SessionOver("the old process of the zygote did not exit")
        loop = asyncio.get_running_loop()
        loop.call_later(_LOOK_SECONDS, self._look_whether_left, pid, until)

    def _look_whether_left(self, pid: int, until: int) -> None:
        self.reap()
        self._wait_until_left(pid, until)

    def _adopt(self, is_dead: bool) -> None:
        """The zygote's old process is reaped, so its new process is now our child."""
        self._pid, self._next_pid = self._next_pid, 0
        if not is_dead and self._pid not in processes.children_of_self():
            self._garbled_zygote(NotUnderstood("the zygote is not the process that it named"))
        else:
            self._send(AdoptedFrame())

    def expect_results(self, most_bytes: int) -> None:
        """Allow results of that size from executors that are started from now on."""
        self.from_executor = from_executor(most_bytes)

    def reap(self) -> None:
        """Reap dead children, and act if the zygote is among them."""
        dead = dict(processes.reaped())
        while (status := dead.pop(self._pid, None)) is not None:
            if not self._next_pid:
                # A zygote that moves into its own namespace reports that before this process exits.
                self._read_zygote()
            if self._next_pid:
                self._adopt(self._next_pid in dead)
            else:
                self._pid = 0
                self._zygote_listener.on_zygote_death(os.waitstatus_to_exitcode(status))

    def signal(self, executor: Executor, number: int) -> None:
        self._send(SignalFrame(executor.number, number))

    def kill(self, executor: Executor) -> None:
        self._send(KillFrame(executor.number))

    def _send(self, frame: ToZygote, descriptors: tuple[int, ...] = ()) -> None:
        # Frames are small and the zygote always reads: this does not block for long.
        self._channel.setblocking(True)
        try:
            send(self._channel, frame, descriptors)
        except OSError:
            pass  # the zygote is dead; `reap` will find that
        finally:
            self._channel.setblocking(False)

    def end_everything(self, between: Callable[[], None]) -> bool:
        """Kill the zygote and everything below it; False if a process did not die."""
        self.is_ended = True
        me = os.getpid()
        gone = processes.end_all(lambda: processes.descendants(me), 1.0, between)
        return gone and marks.end_marked(self._session, 0.5, between)

    async def wait_until_read(self, seconds: float = 0.2) -> None:
        """Wait until what dead executors sent has been read."""
        until = now() + round(seconds * 1e6)
        while (
            any(not executor.is_read_out for executor in self.by_number.values()) and now() < until
        ):
            await asyncio.sleep(0.002)

    # -- executors

    def of_kind(self, kind: str) -> list[Executor]:
        return [executor for executor in self.by_number.values() if executor.kind == kind]

    def start(self, kind: Kind) -> Executor:
        """Start one more executor; jobs may be given to it at once."""
        self._number += 1
        executor = Executor(self._number, kind, self)
        self.by_number[self._number] = executor
        self._send(ForkFrame(executor.number, kind), tuple(executor.handed_over()))
        connecting = asyncio.get_running_loop().create_task(executor.connect())
        self._starting.add(connecting)
        connecting.add_done_callback(self._starting.discard)
        self.listener.on_start(executor)
        log.emit("executor_started", kind=kind, executor=executor.number, session=self._session)
        return executor
