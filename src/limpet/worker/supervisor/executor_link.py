"""One executor as the supervisor sees it: what it was given, and whether it can have more."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections import deque
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from limpet import log
from limpet.domain.cause import Cause, ExecutorGarbled, WorkerKilled
from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete
from limpet.host import processes
from limpet.worker.supervisor.given import Arrival, GivenJobs, Pings
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.frames import (
    FROM_NOTES,
    LANE,
    LOOP,
    PERMIT,
    AnyFrame,
    DoneFrame,
    EndFrame,
    PingFrame,
    RecallFrame,
    RunFrame,
    Splitter,
    StopFrame,
    pack,
)
from limpet.worker.wire.page import now

if TYPE_CHECKING:
    from limpet.worker.supervisor.executors import Executors

_COUNT = struct.Struct("i")
# Large arguments go in several frames, so that the first job need not wait for the last.
_FRAME_BYTES = 256 * 1024
_RUSH = 2_000
# What is no outcome, or that of a job that is over, is read no faster than this, however fast it
# comes: 20,000 of it a second.
_WORD_MICROSECONDS = 50
_NOTES_BYTES, _NOTES_SECONDS = 4_096, 0.01
# Above this an executor that does not read is given nothing more.
_UNREAD_BYTES = 8 * 1024 * 1024
# How long an executor may live whose socket is closed.
_LEAVE_SECONDS = 0.5
# How long an executor without jobs may take to answer.
_LONGEST_RECALL_US = 10_000_000


class Executor(asyncio.Protocol):
    """One executor: what it was given, and whether more may be given to it."""

    def __init__(self, number: int, kind: str, crew: "Executors") -> None:
        self.number = number
        self.kind = kind
        self.holds: dict[str, Hold] = {}
        self.unstarted: deque[Hold] = deque()
        self.ready = False
        self.slow = False  # it should have been ready long ago
        self.unfit = False  # a job has changed its process for ever
        self.doomed = False  # it will be killed; nothing more is given to it
        self._idle_since = now()
        self.retiring = False  # it ends when it has finished what it has
        self.recalling, self._recalled_at = False, 0
        self.for_suspect = False
        self.jobs = 0
        self.start_error = ""
        self.kill_at: int | None = None
        self.started_at = self.pinged_at = self.heard_at = now()
        self.blamed = self.told_blame = self.asked_what_blocks = False
        self.last_waiting = 0
        self.stuck_since = now()
        self._crew = crew
        self.given = GivenJobs()
        self.pings = Pings()
        self._splitter = Splitter(crew.from_executor)
        self._notes_splitter = Splitter(FROM_NOTES)
        self._transport: Any = None
        self._unsent: list[bytes] = []
        self._closed = self._full = False
        self._garbled: NotUnderstood | None = None
        self._arrival = Arrival(kind)
        self._next_note: asyncio.TimerHandle | None = None
        self._cut = False  # it was ended because its socket was closed and it lived on
        self._death: Cause | None = None
        self._dead = False
        self.died_with = 0  # how many executors somebody's signal has ended together with it
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
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent = []

    # -- saying

    @property
    def takes_more(self) -> bool:
        unfit = self.doomed or self.retiring or self.recalling or self.slow or self._dead
        return not (unfit or self._full or self._garbled)

    def give(self, holds: list[Hold]) -> None:
        """Hand over jobs, in order; the permits first, so that none waits for one."""
        moment = now()
        for place, hold in enumerate(holds, self.given.count):
            hold.executor = self
            hold.place = place
            hold.given_at = moment
            self.holds[hold.lease.job] = hold
        lost = {hold.lease.job: hold.lost for hold in holds if hold.lost is not None}
        self.given.count += len(holds)
        self.unstarted += holds
        try:
            os.write(self._permit_writer, PERMIT * len(holds))
        except BlockingIOError:
            self.not_understood(NotUnderstood("its pipe of permits was filled by somebody else"))
        part: list[ClaimedJob] = []
        size = 0
        for hold in holds:
            part.append(hold.claimed)
            size += len(hold.claimed.args)
            if size > _FRAME_BYTES:
                self.say(RunFrame(part, lost))
                part, size = [], 0
        if part:
            self.say(RunFrame(part, lost))

    def say(self, frame: AnyFrame) -> None:
        data = pack(frame)
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
        if taken > len(self.unstarted):
            self.not_understood(NotUnderstood("somebody else wrote into its pipe of permits"))
            taken = len(self.unstarted)
        back = [self.unstarted.pop() for _ in range(taken)]
        self.given.count -= taken
        for hold in back:
            del self.holds[hold.lease.job]
            hold.executor = None
        self.given.let_go([hold.lease.job for hold in back])
        self.look()
        if back:
            self.recalling, self._recalled_at = True, now()
            self.say(RecallFrame())
        back.reverse()
        return back

    def look(self) -> list[Hold]:
        """Which jobs have begun since the last look."""
        if not self.unstarted:
            return []
        remaining = self._permits_left()
        begun = []
        while len(self.unstarted) > remaining:
            hold = self.unstarted.popleft()
            hold.begun = True
            hold.begun_at = hold.progress_at = now()
            begun.append(hold)
        return begun

    def _permits_left(self) -> int:
        buffer = fcntl.ioctl(self._permits, termios.FIONREAD, b"\0\0\0\0")
        left: int = _COUNT.unpack(buffer)[0]
        return left

    @property
    def begun_before(self) -> int:
        """The `place` from which on jobs have not begun, as the pipe of permits has it now."""
        return self.given.count - self._permits_left()

    def had_job(self, job: str) -> bool:
        """Whether it has the job, or had it not long ago."""
        return job in self.holds or self.given.had(job)

    def must_know(self, lease: Lease) -> None:
        """Raise `NotUnderstood` unless it had the job, of which it speaks though it is over."""
        hold = self.holds.get(lease.job)
        if (hold is None or hold.lease != lease) and not self.given.had(lease.job):
            raise NotUnderstood(f"it spoke of job {lease.job[:50]!r}, which it was never given")

    def stop(self, hold: Hold, cause: Cause, *, interrupt: bool) -> None:
        """Ask a job to stop."""
        self.say(StopFrame(hold.lease.job, hold.lease.token, cause.record(), interrupt))
        if self.kind == LANE:
            self._crew.signal(self, processes.STOP_SIGNAL)

    def ping(self) -> None:
        self.pinged_at = now()
        self.pings.sent(self.pinged_at)
        self.say(PingFrame(self.pinged_at))

    def ask_what_blocks(self) -> None:
        self.asked_what_blocks = True
        self._crew.signal(self, processes.ASK_SIGNAL)

    def end(self) -> None:
        """Let it finish what it has and leave in order."""
        self.retiring = True
        self.say(EndFrame())

    def kill(self) -> None:
        self._crew.kill(self)

    # -- hearing

    def data_received(self, data: bytes) -> None:
        if self._garbled:
            return
        moment = now()
        in_a_rush = moment - self.heard_at < _RUSH
        self.heard_at = moment
        pause = max(_RUSH if in_a_rush else 0, self._hear(data) * _WORD_MICROSECONDS)
        self._arrival.heard(moment, has_part=self._splitter.has_part)
        if pause >= _RUSH and not self._transport.is_closing():
            # While outcomes come by the thousand they are read together, and nobody can make us
            # read for ever; what is in the socket is safe there, whatever becomes of the executor.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(pause / 1e6, self._read_on)

    def _hear(self, data: bytes) -> int:
        """Act on what came; the answer is how much of it was something else than new outcomes.

        What an executor says wrongly ends that executor; an error of ours is nobody's but ours.
        """
        words = 0
        done: list[Complete] = []
        listener = self._crew.listener
        try:
            try:
                for frame in self._splitter.feed(data):
                    if isinstance(frame, DoneFrame):
                        done += frame.completes
                        continue
                    if done:
                        before, done = done, []
                        words += listener.on_done(self, before)
                    words += 1
                    listener.on_frame(self, frame)
            finally:
                if done:
                    words += listener.on_done(self, done)
        except NotUnderstood as error:
            self.not_understood(error)
        return words

    def look_for_tampering(self, moment: int) -> None:
        """End it where a job has begun a frame of its own: all that follows would be taken for the
        rest of it, the outcomes of other jobs too; or has read what was sent to its executor.
        """
        if self._arrival.takes_too_long(moment):
            self.not_understood(NotUnderstood("it began a frame and did not end it"))
        elif self.recalling and not self.holds and moment - self._recalled_at > _LONGEST_RECALL_US:
            self.not_understood(NotUnderstood("it did not hear that jobs were taken back"))

    def not_understood(self, error: Exception) -> None:
        """It says what it cannot or may not: nothing that it says can be trusted now."""
        if self._garbled is None:
            self._garbled = NotUnderstood(str(error)[:500])
            log.emit("executor_garbled", kind=self.kind, executor=self.number, error=error)
            self.kill()

    def _read_on(self) -> None:
        if not self._closed and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        with self._rest, contextlib.suppress(OSError):
            while not self._garbled and (data := self._rest.recv(1 << 16)):
                self._hear(data)
        if not self._dead:
            # It leaves, or a job has put something else where its socket was.
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._end_what_is_silent)
        self._bury_when_certain()

    def _end_what_is_silent(self) -> None:
        if not self._dead:
            self._cut = True
            self.kill()

    def died(self, cause: Cause | None) -> None:
        """The zygote has reaped it; what it said before is still to be read."""
        self._dead = True
        self._death = cause
        # Not of what it had died of before: to leave may take a while on a busy machine.
        by_us = self._cut and not self.died_with and cause == WorkerKilled(SIGKILL, "executor")
        if by_us and self._garbled is None:
            self._garbled = NotUnderstood("its socket was closed and it lived on")
        asyncio.get_running_loop().call_later(0.5, self._give_up_listening)
        self._bury_when_certain()

    def _give_up_listening(self) -> None:
        if not self._closed and self._transport is not None:
            self._transport.abort()

    def _bury_when_certain(self) -> None:
        if self._closed and self._dead and self.number in self._crew.executors:
            del self._crew.executors[self.number]
            self.look()
            if self._garbled is not None:
                self._death = ExecutorGarbled(str(self._garbled))
            self._crew.listener.on_death(self, self._death)
            if self._next_note is not None:
                self._next_note.cancel()
            asyncio.get_running_loop().remove_reader(self._notes)
            for descriptor in (self._permits, self._permit_writer, self._notes):
                os.close(descriptor)
            self.desk.close()

    def pause_writing(self) -> None:
        """It does not read what it is given."""
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._crew.listener.on_room()

    def _note(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._notes)
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._notes, _NOTES_BYTES)
            if not data:
                return
            try:
                for frame in self._notes_splitter.feed(data):
                    self._crew.listener.on_blocked(self, frame)
            except NotUnderstood as error:
                self.not_understood(error)
        if not self._garbled:
            self._next_note = loop.call_later(
                _NOTES_SECONDS, loop.add_reader, self._notes, self._note
            )
