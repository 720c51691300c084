"""The executors as the supervisor sees them, and the zygote that starts and ends them."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections import deque
from typing import Any, Protocol

from limpet import log
from limpet.domain.cause import Cause, ExecutorExited, OutOfMemory, WorkerKilled
from limpet.worker import processes
from limpet.worker.frames import (
    ADOPTED,
    DIED,
    END,
    FORK,
    KILL,
    LANE,
    PING,
    PLACE,
    RECALL,
    RUN,
    SIGNAL,
    STOP,
    Channel,
    Splitter,
    pack,
)
from limpet.worker.holds import Hold
from limpet.worker.page import now
from limpet.worker.plan import Order, Plan

_COUNT = struct.Struct("i")


class Listener(Protocol):
    """Who hears what executors and the zygote say."""

    def on_frame(self, executor: "Executor", frame: Any) -> None: ...
    def on_death(self, executor: "Executor", cause: Cause | None) -> None: ...
    def on_request(self, executor: "Executor", sock: socket.socket) -> None: ...
    def on_zygote(self, frame: Any) -> None: ...
    def on_zygote_death(self, how: str) -> None: ...


class Executor(asyncio.Protocol):
    """One executor: what it was given, and whether more may be given to it."""

    def __init__(self, number: int, kind: str, crew: "Crew") -> None:
        self.number = number
        self.kind = kind
        self.holds: dict[str, Hold] = {}
        self.unstarted: deque[Hold] = deque()
        self.ready = False
        self.doomed = False  # it will be killed; nothing more is given to it
        self.retiring = False  # it ends when it has finished what it has
        self.recalling = False
        self.for_suspect = False
        self.jobs = 0
        self.kill_at: int | None = None
        self.pinged_at = self.heard_at = now()
        self.blamed = self.told_blame = False
        self.last_waiting = 0
        self.stuck_since: int | None = None
        self._crew = crew
        self._splitter = Splitter()
        self._transport: Any = None
        self._unsent: list[bytes] = []
        self._closed = False
        self._death: Cause | None = None
        self._dead = False
        self._work, self.theirs_work = socket.socketpair()
        self.desk, self.theirs_desk = socket.socketpair()
        self._permits, self._permit_writer = os.pipe()
        self._notes, self._note_writer = os.pipe()
        for descriptor in (self._permits, self._permit_writer, self._notes):
            os.set_blocking(descriptor, False)

    def handed_over(self) -> list[int]:
        """The descriptors of the executor's side."""
        return [
            self.theirs_work.fileno(), self.theirs_desk.fileno(), self._permits, self._note_writer,
        ]  # fmt: skip

    async def connect(self) -> None:
        """Begin to listen; the other side has its own copies of what it needs."""
        self.theirs_work.close()
        self.theirs_desk.close()
        os.close(self._note_writer)
        self._work.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notes, self._note)
        self._transport, _ = await loop.create_connection(lambda: self, sock=self._work)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent = []

    # -- saying

    @property
    def takes_more(self) -> bool:
        return not (self.doomed or self.retiring or self.recalling or self._dead)

    def give(self, holds: list[Hold], lost: dict[str, Any]) -> None:
        """Hand over jobs, in order; the permits first, so that none waits for one."""
        for hold in holds:
            hold.executor = self
            self.holds[hold.lease.job] = hold
        self.unstarted += holds
        os.write(self._permit_writer, b"." * len(holds))
        self.say(RUN, [hold.claimed for hold in holds], lost)

    def say(self, *frame: Any) -> None:
        data = pack(*frame)
        if self._transport is None:
            self._unsent.append(data)
        elif not self._closed:
            self._transport.write(data)

    def take_back(self) -> list[Hold]:
        """Take the permits of what has not started: those jobs are ours again."""
        self.look()
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while some := os.read(self._permits, 4096):
                taken += len(some)
        back = [self.unstarted.pop() for _ in range(taken)]
        for hold in back:
            del self.holds[hold.lease.job]
            hold.executor = None
        self.look()
        if back:
            self.recalling = True
            self.say(RECALL)
        back.reverse()
        return back

    def look(self) -> list[Hold]:
        """Which jobs have begun since the last look."""
        if not self.unstarted:
            return []
        buffer = fcntl.ioctl(self._permits, termios.FIONREAD, b"\0\0\0\0")
        remaining: int = _COUNT.unpack(buffer)[0]
        begun = []
        while len(self.unstarted) > remaining:
            hold = self.unstarted.popleft()
            hold.begun = True
            hold.begun_at = hold.progress_at = now()
            begun.append(hold)
        return begun

    def stop(self, hold: Hold, cause: Cause, *, interrupt: bool) -> None:
        """Ask a job to stop."""
        self.say(STOP, hold.lease.job, hold.lease.token, cause.record(), interrupt)
        if self.kind == LANE:
            self._crew.signal(self, processes.STOP_SIGNAL)

    def ping(self) -> None:
        self.pinged_at = now()
        self.say(PING, self.pinged_at)

    def ask_what_blocks(self) -> None:
        self._crew.signal(self, processes.ASK_SIGNAL)

    def end(self) -> None:
        """Let it finish what it has and leave in order."""
        self.retiring = True
        self.say(END)

    def kill(self) -> None:
        self._crew.kill(self)

    # -- hearing

    def data_received(self, data: bytes) -> None:
        self.heard_at = now()
        for frame in self._splitter.feed(data):
            self._crew.listener.on_frame(self, frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._bury_when_certain()

    def died(self, cause: Cause | None) -> None:
        """The zygote has reaped it; what it said before is still to be read."""
        self._dead = True
        self._death = cause
        asyncio.get_running_loop().call_later(0.5, self._give_up_listening)
        self._bury_when_certain()

    def _give_up_listening(self) -> None:
        if not self._closed and self._transport is not None:
            self._transport.abort()

    def _bury_when_certain(self) -> None:
        if self._closed and self._dead and self.number in self._crew.executors:
            del self._crew.executors[self.number]
            self.look()
            self._crew.listener.on_death(self, self._death)
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._notes)
            for descriptor in (self._permits, self._permit_writer, self._notes):
                os.close(descriptor)
            self.desk.close()

    def _note(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._notes, 65536)
            if not data:
                asyncio.get_running_loop().remove_reader(self._notes)
            for frame in Splitter().feed(data):
                self._crew.listener.on_frame(self, frame)


class Crew:
    """The zygote and its executors."""

    def __init__(self, plan: Plan, session: str, page: int, lock: int, listener: Listener) -> None:
        self._plan = plan
        self._session = session
        self._page = page
        self._lock = lock
        self.listener = listener
        self.executors: dict[int, Executor] = {}
        self._number = 0
        self._pid = 0
        self._splitter = Splitter()
        self._starting: set[asyncio.Task[None]] = set()

    # -- the zygote

    def start_zygote(self, *, namespace: bool) -> None:
        """Start the zygote; it says what it found when it has imported the app."""
        ours, theirs = socket.socketpair()
        order = Order(theirs.fileno(), self._page, self._lock, namespace=namespace)
        environment = {
            **os.environ,
            **self._plan.environment(),
            **order.environment(),
            processes.MARK: self._session,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "limpet.worker.zygote"],
            env=environment,
            pass_fds=order.descriptors,
        )
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
        for frame in self._splitter.feed(data):
            self._zygote_said(frame)

    def _zygote_said(self, frame: Any) -> None:
        if frame[0] == PLACE:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)  # it has left; what it forked is our own child now
            self._pid = frame[1]
            self._tell(ADOPTED)
        elif frame[0] == DIED:
            executor = self.executors.get(frame[1])
            if executor is not None:
                executor.died(self._cause(*frame[2:]))
        else:
            self.listener.on_zygote(frame)

    def _cause(self, status: int, over: int, by_kernel: bool) -> Cause | None:
        """Why an executor died; None if it left in order."""
        if over:
            return OutOfMemory(used=over, limit=self._plan.max_rss)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number == signal.SIGKILL and by_kernel:
                return OutOfMemory()
            return WorkerKilled(signal=number, process="executor")
        code = os.WEXITSTATUS(status)
        return ExecutorExited(code=code) if code else None

    def reap(self) -> None:
        """Reap dead children; tell if the zygote is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                # One that moved into its own namespace has said so before this one left.
                self._hear_zygote()
            if pid == self._pid:
                self._pid = 0
                self.listener.on_zygote_death(_how(status))

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

    def end_everything(self) -> bool:
        """Kill the zygote and everything below; True when nothing is left."""
        me = os.getpid()
        gone = processes.end_all(lambda: processes.descendants(me), seconds=1.5)
        return gone and processes.end_all(lambda: processes.marked(self._session), seconds=0.5)

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
        self.listener.on_request(executor, executor.desk)
        log.say("executor_started", kind=kind, executor=executor.number, session=self._session)
        return executor


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"code {os.WEXITSTATUS(status)}"
