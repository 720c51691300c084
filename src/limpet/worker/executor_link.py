"""One executor as the supervisor sees it: what it was given, and whether it can have more."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from limpet import log
from limpet.domain.cause import Cause, ExecutorGarbled
from limpet.domain.job import ClaimedJob
from limpet.domain.transition import Complete
from limpet.host import processes
from limpet.worker.frames import DONE, END, LANE, LOOP, PING, RECALL, RUN, STOP, Splitter, pack
from limpet.worker.holds import Hold
from limpet.worker.page import now

if TYPE_CHECKING:
    from limpet.worker.crew import Crew

_COUNT = struct.Struct("i")
# Large arguments go in several frames, so that the first job need not wait for the last.
_FRAME_BYTES = 256 * 1024
_RUSH = 2_000


class Executor(asyncio.Protocol):
    """One executor: what it was given, and whether more may be given to it."""

    def __init__(self, number: int, kind: str, crew: "Crew") -> None:
        self.number = number
        self.kind = kind
        self.holds: dict[str, Hold] = {}
        self.unstarted: deque[Hold] = deque()
        self.ready = False
        self.slow = False  # it should have been ready long ago
        self.doomed = False  # it will be killed; nothing more is given to it
        self._idle_since = now()
        self.retiring = False  # it ends when it has finished what it has
        self.recalling = False
        self.for_suspect = False
        self.jobs = 0
        self.start_error = ""
        self.kill_at: int | None = None
        self.started_at = self.pinged_at = self.heard_at = now()
        self.blamed = self.told_blame = False
        self.last_waiting = 0
        self.stuck_since = now()
        self._crew = crew
        self._splitter = Splitter()
        self._transport: Any = None
        self._unsent: list[bytes] = []
        self._closed = self._garbled = False
        self._death: Cause | None = None
        self._dead = False
        self._work, self.theirs_work = socket.socketpair()
        self.desk, self.theirs_desk = socket.socketpair()
        self._permits, self._permit_writer = os.pipe()
        self._notes, self._note_writer = os.pipe()
        for descriptor in (self._permits, self._permit_writer, self._notes):
            os.set_blocking(descriptor, False)

    @property
    def is_alive(self) -> bool:
        """Whether it stands for one of the executors that there may be."""
        return not self.doomed and bool(self.holds or not self.retiring)

    def lingers(self, moment: int, after: int) -> bool:
        """Whether it has had nothing left to do but to leave, for that long."""
        if not self.retiring or self.holds:
            self._idle_since = moment
        return moment - self._idle_since > after and self.retiring

    @property
    def pool(self) -> str:
        """The pool whose places its jobs take; a suspect of the loop runs in a lane."""
        return LOOP if self.for_suspect else self.kind

    @property
    def is_silent(self) -> bool:
        """Whether everything that it said has been read."""
        return self._closed

    @property
    def has_unread(self) -> bool:
        """Whether not all that was said to it has gone out."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

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
        # The transport closes its own when it cannot write, whatever there is still to read.
        self._rest = self._work.dup()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notes, self._note)
        self._transport, _ = await loop.create_connection(lambda: self, sock=self._work)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent = []

    # -- saying

    @property
    def takes_more(self) -> bool:
        unfit = self.doomed or self.retiring or self.recalling or self.slow or self._dead
        return not (unfit or self._garbled)

    def give(self, holds: list[Hold]) -> None:
        """Hand over jobs, in order; the permits first, so that none waits for one."""
        for hold in holds:
            hold.executor = self
            self.holds[hold.lease.job] = hold
        lost = {hold.lease.job: hold.lost for hold in holds if hold.lost is not None}
        self.unstarted += holds
        os.write(self._permit_writer, b"." * len(holds))
        part: list[ClaimedJob] = []
        size = 0
        for hold in holds:
            part.append(hold.claimed)
            size += len(hold.claimed.args)
            if size > _FRAME_BYTES:
                self.say(RUN, part, lost)
                part, size = [], 0
        if part:
            self.say(RUN, part, lost)

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
        if self._garbled:
            return
        moment = now()
        if moment - self.heard_at < _RUSH:
            # While outcomes come by the thousand they are read together; what is in the socket is
            # safe there, whatever becomes of the executor.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_RUSH / 1e6, self._read_on)
        self.heard_at = moment
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        listener = self._crew.listener
        done: list[Complete] = []
        try:
            for frame in self._splitter.feed(data):
                if frame[0] == DONE:
                    done += frame.completes
                    continue
                if done:
                    listener.on_done(self, done)
                    done = []
                listener.on_frame(self, frame)
        except msgspec.DecodeError as error:
            self.not_understood(error)
        if done:
            listener.on_done(self, done)

    def not_understood(self, error: Exception) -> None:
        """Something else wrote into its socket: nothing that it says can be trusted now."""
        if not self._garbled:
            self._garbled = True
            log.say("executor_garbled", kind=self.kind, executor=self.number, error=error)
            self.kill()

    def _read_on(self) -> None:
        if not self._closed and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        with self._rest, contextlib.suppress(OSError):
            while not self._garbled and (data := self._rest.recv(1 << 16)):
                self._hear(data)
        self._bury_when_certain()

    def died(self, cause: Cause | None) -> None:
        """The zygote has reaped it; what it said before is still to be read."""
        self._dead = True
        self._death = ExecutorGarbled() if self._garbled else cause
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
            try:
                for frame in Splitter().feed(data):
                    self._crew.listener.on_frame(self, frame)
            except msgspec.DecodeError as error:
                self.not_understood(error)
