"""One executor as the supervisor sees it: what it was given, and whether it can have more."""

import asyncio
import contextlib
import os
import socket
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
from limpet.worker.supervisor.start_tokens import StartTokens
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.frames import (
    FROM_NOTES,
    LANE,
    LOOP,
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

# Large arguments go in several frames, so that the first job does not wait for the last one.
_FRAME_BYTES = 256 * 1024
_RUSH_US = 500
# The supervisor reads frames that are no new outcome (a report, or the outcome of a job that is
# over) no faster than 20,000 a second, however fast an executor sends them.
_OTHER_FRAME_US = 50
_NOTES_BYTES, _NOTES_SECONDS = 4_096, 0.01
# An executor that has this much left to read is given nothing more.
_UNREAD_BYTES = 8 * 1024 * 1024
# How long an executor may live after its socket was closed.
_LEAVE_SECONDS = 0.5
# How long an executor without jobs may take to answer a recall.
_LONGEST_RECALL_US = 10_000_000


class Executor(asyncio.Protocol):
    """One executor: what it was given, and whether more may be given to it."""

    def __init__(self, number: int, kind: str, executors: "Executors") -> None:
        self.number = number
        self.kind = kind
        self.holds: dict[str, Hold] = {}
        self.unstarted: deque[Hold] = deque()
        self.ready = False
        self.slow = False  # its start takes longer than usual
        self.unfit = False  # a job has changed its process for good
        self.doomed = False  # it will be killed; nothing more is given to it
        self._idle_since = now()
        self.retiring = False  # it ends when its jobs have finished
        self.recalling, self._recalled_at = False, 0
        self.for_suspect = False
        self.jobs = 0
        self.start_error = ""
        self.kill_at: int | None = None
        self.started_at = self.pinged_at = self.received_at = now()
        self.blamed = self.blame_answered = self.blame_requested = False
        self.last_waiting = 0
        self.stuck_since = now()
        self._executors = executors
        self.given = GivenJobs()
        self.pings = Pings()
        self._splitter = Splitter(executors.from_executor)
        self._notes_splitter = Splitter(FROM_NOTES)
        self._transport: Any = None
        self._unsent: list[bytes] = []
        self._closed = self._full = False
        self._garbled: NotUnderstood | None = None
        self._arrival = Arrival(kind)
        self._next_note: asyncio.TimerHandle | None = None
        self._cut = False  # it was killed because it lived on after its socket was closed
        self._death: Cause | None = None
        self._dead = False
        self.died_with = 0  # how many executors, itself included, one foreign signal has ended
        self._work, self.theirs_work = socket.socketpair()
        self.request_socket, self.theirs_request_socket = socket.socketpair()
        self._tokens = StartTokens()
        self._notes, self._note_writer = os.pipe()
        os.set_blocking(self._notes, False)

    @property
    def is_alive(self) -> bool:
        """Whether it counts against the number of executors that may run."""
        return not self.doomed and bool(self.holds or not self.retiring)

    def lingers(self, moment: int, grace_us: int) -> bool:
        """Whether it has had nothing left to do but leave for longer than the grace."""
        if not self.retiring or self.holds:
            self._idle_since = moment
        return moment - self._idle_since > grace_us and self.retiring

    @property
    def pool(self) -> str:
        """The pool whose places its jobs take: a suspect of the loop runs in a lane."""
        return LOOP if self.for_suspect else self.kind

    @property
    def is_read_out(self) -> bool:
        """Whether everything that it sent has been read."""
        return self._closed

    @property
    def has_unread(self) -> bool:
        """Whether some of the frames for it are still waiting to go out."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    def handed_over(self) -> list[int]:
        """The descriptors of the executor's side, in the order in which it expects them."""
        return [
            self.theirs_work.fileno(), self.theirs_request_socket.fileno(),
            self._tokens.for_executor, self._note_writer,
        ]  # fmt: skip

    async def connect(self) -> None:
        """Begin to read, and close the executor's ends here: the executor has its own copies."""
        self.theirs_work.close()
        self.theirs_request_socket.close()
        os.close(self._note_writer)
        self._work.setblocking(False)
        # The transport closes its socket when a write fails, even if there is still data to read;
        # this copy stays open for reading that.
        self._rest = self._work.dup()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notes, self._note)
        self._transport, _ = await loop.create_connection(lambda: self, sock=self._work)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        for frame in self._unsent:
            self._transport.write(frame)
        self._unsent = []

    # -- sending

    @property
    def takes_more(self) -> bool:
        unfit = self.doomed or self.retiring or self.recalling or self.slow or self._dead
        return not (unfit or self._full or self._garbled)

    def give(self, holds: list[Hold]) -> None:
        """Hand over jobs, in order; their start tokens go first, so that no job waits for one."""
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
            self._tokens.give(len(holds))
        except NotUnderstood as error:
            self.not_understood(error)
        part: list[ClaimedJob] = []
        size = 0
        for hold in holds:
            part.append(hold.claimed)
            size += len(hold.claimed.args)
            if size > _FRAME_BYTES:
                self.send(RunFrame(part, lost))
                part, size = [], 0
        if part:
            self.send(RunFrame(part, lost))

    def send(self, frame: AnyFrame) -> None:
        data = pack(frame)
        if self._transport is None:
            self._unsent.append(data)
        elif not self._closed:
            self._transport.write(data)

    def take_back(self) -> list[Hold]:
        """Take back the jobs that have not started."""
        self.look()
        taken = self._tokens.take_back()
        if taken > len(self.unstarted):
            self.not_understood(
                NotUnderstood("another process wrote into its pipe of start tokens")
            )
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
            self.send(RecallFrame())
        back.reverse()
        return back

    def look(self) -> list[Hold]:
        """The jobs that have begun since the last look."""
        if not self.unstarted:
            return []
        remaining = self._tokens.left
        begun = []
        while len(self.unstarted) > remaining:
            hold = self.unstarted.popleft()
            hold.begun = True
            hold.begun_at = hold.progress_at = now()
            begun.append(hold)
        return begun

    @property
    def begun_before(self) -> int:
        """Jobs whose `place` is below this have begun; the tokens left in the pipe show it."""
        return self.given.count - self._tokens.left

    def had_job(self, job: str) -> bool:
        """Whether it has the job, or had it a short time ago."""
        return job in self.holds or self.given.had(job)

    def must_know(self, lease: Lease) -> None:
        """Raise `NotUnderstood` if a frame names a job that the executor was never given.

        A frame about a job that is over is no error: it may come late.
        """
        hold = self.holds.get(lease.job)
        if (hold is None or hold.lease != lease) and not self.given.had(lease.job):
            raise NotUnderstood(f"it reported on job {lease.job[:50]!r}, which it was never given")

    def stop(self, hold: Hold, cause: Cause, *, interrupt: bool) -> None:
        """Request that a job stops; `interrupt`: even if it never looks for such a request."""
        self.send(StopFrame(hold.lease.job, hold.lease.token, cause.record(), interrupt))
        if self.kind == LANE:
            self._executors.signal(self, processes.STOP_SIGNAL)

    def ping(self) -> None:
        self.pinged_at = now()
        self.pings.sent(self.pinged_at)
        self.send(PingFrame(self.pinged_at))

    def request_blame(self) -> None:
        self.blame_requested = True
        self._executors.signal(self, processes.REPORT_SIGNAL)

    def end(self) -> None:
        """Let it finish its jobs and leave in order."""
        self.retiring = True
        self.send(EndFrame())

    def kill(self) -> None:
        self._executors.kill(self)

    # -- receiving

    def data_received(self, data: bytes) -> None:
        if self._garbled:
            return
        moment = now()
        in_a_rush = moment - self.received_at < _RUSH_US
        self.received_at = moment
        pause_us = max(_RUSH_US if in_a_rush else 0, self._receive(data) * _OTHER_FRAME_US)
        self._arrival.received(moment, has_part=self._splitter.has_part)
        if pause_us >= _RUSH_US and not self._transport.is_closing():
            # While outcomes come by the thousand they are read together, and no executor can keep
            # the supervisor reading. What is in the socket survives the executor's death.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(pause_us / 1e6, self._read_on)

    def _receive(self, data: bytes) -> int:
        """Act on the frames that came; returns how many of them were no new outcomes.

        A wrong frame ends the executor that sent it; an error of the supervisor's own is raised.
        """
        others = 0
        done: list[Complete] = []
        listener = self._executors.listener
        try:
            try:
                for frame in self._splitter.feed(data):
                    if isinstance(frame, DoneFrame):
                        done += frame.completes
                        continue
                    if done:
                        before, done = done, []
                        others += listener.on_done(self, before)
                    others += 1
                    listener.on_frame(self, frame)
            finally:
                if done:
                    others += listener.on_done(self, done)
        except NotUnderstood as error:
            self.not_understood(error)
        return others

    def look_for_tampering(self, moment: int) -> None:
        """End the executor if a job has tampered with its socket.

        A job that begins a frame of its own makes everything after it, the outcomes of other jobs
        too, look like the rest of that frame. A job may also read what was sent to its executor.
        """
        if self._arrival.takes_too_long(moment):
            self.not_understood(NotUnderstood("it began a frame and did not end it"))
        elif self.recalling and not self.holds and moment - self._recalled_at > _LONGEST_RECALL_US:
            self.not_understood(NotUnderstood("it did not answer that jobs were taken back"))

    def not_understood(self, error: Exception) -> None:
        """It sent what it may not, or what cannot be read: nothing that it sends is trusted now."""
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
                self._receive(data)
        if not self._dead:
            # The executor is leaving, or a job has put another file where its socket was.
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._end_what_lives_on)
        self._bury_when_certain()

    def _end_what_lives_on(self) -> None:
        if not self._dead:
            self._cut = True
            self.kill()

    def died(self, cause: Cause | None) -> None:
        """The zygote has reaped it; what it sent before may still be unread."""
        self._dead = True
        self._death = cause
        # Only a death by our own kill counts: on a busy machine an executor may take a while to
        # leave, and may have died of something else before.
        by_us = self._cut and not self.died_with and cause == WorkerKilled(SIGKILL, "executor")
        if by_us and self._garbled is None:
            self._garbled = NotUnderstood("it lived on after its socket was closed")
        asyncio.get_running_loop().call_later(0.5, self._give_up_listening)
        self._bury_when_certain()

    def _give_up_listening(self) -> None:
        if not self._closed and self._transport is not None:
            self._transport.abort()

    def _bury_when_certain(self) -> None:
        if self._closed and self._dead and self.number in self._executors.by_number:
            del self._executors.by_number[self.number]
            self.look()
            if self._garbled is not None:
                self._death = ExecutorGarbled(str(self._garbled))
            self._executors.listener.on_death(self, self._death)
            if self._next_note is not None:
                self._next_note.cancel()
            asyncio.get_running_loop().remove_reader(self._notes)
            self._tokens.close()
            os.close(self._notes)
            self.request_socket.close()

    def pause_writing(self) -> None:
        """It does not read what was sent to it."""
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._executors.listener.on_writable()

    def _note(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._notes)
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._notes, _NOTES_BYTES)
            if not data:
                return
            try:
                for frame in self._notes_splitter.feed(data):
                    self._executors.listener.on_blocked(self, frame)
            except NotUnderstood as error:
                self.not_understood(error)
        if not self._garbled:
            self._next_note = loop.call_later(
                _NOTES_SECONDS, loop.add_reader, self._notes, self._note
            )
