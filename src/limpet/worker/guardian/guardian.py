"""The guardian: root of the worker's tree, fit to be PID 1.

The guardian starts a supervisor, watches it and forwards signals. When the lease may have passed to
another, or the supervisor is gone, it ends every process of the session. It runs no user code, has
no threads and needs only the standard library, so that only the kernel can keep it from this work.
"""

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.printable import printable
from limpet.host import locks, marks, processes
from limpet.host.shortage import sentence_of
from limpet.host.signals import SignalPipe, ended_children
from limpet.worker.wire.page import Page, create, now
from limpet.worker.wire.plan import ANEW, DONE, WRONG_USAGE, Plan, from_environment

_LONGEST_PERIOD_SECONDS = 0.25
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 30.0
# How long the start of a process may take before the guardian counts as frozen.
_LONGEST_START_SECONDS = 10.0
# A supervisor that lived this long was not part of a crash loop.
_HEALTHY_SECONDS = 30.0
# How many deaths in a row are followed by a start at once; later ones by a pause.
_FREE_DEATHS = 3
_SHORT_PAUSE_SECONDS = 0.1
# Most tries to start a worker that was never ready.
_MOST_TRIES = 5
# After the drain: how long the supervisor may take to stop, confirm and release, and how long its
# death notice may take; if the notice has not reached the store by then, a sweep finds the death.
_STOP_SECONDS, _NOTICE_SECONDS = 2.5, 2.9
_SHORTEST_NOTICE_SECONDS = 0.3
# A notice that takes longer gives up its locks, so that others can find the death by themselves.
_SLOW_NOTICE_SECONDS = 1.0


def print_line(text: str) -> None:
    """Print a line to standard error, unless that would block: nothing may delay the guardian."""
    with contextlib.suppress(OSError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"limpet: {printable(text)}\n".encode())


class _Session:
    """One supervisor and what belongs to it."""

    def __init__(
        self,
        id: str,  # noqa: A002 - as the store calls it
        held: locks.HeldLocks,
        page: Page,
        process: "subprocess.Popen[bytes]",
        link: socket.socket,
    ) -> None:
        self.id = id
        self.locks = held
        self.page = page
        self.process = process
        self.link = link
        self.started = time.monotonic()
        self.url = ""
        self.ready = False
        self.defect = False
        self.unread = b""


class _Notice:
    """A process that reports a death to the store, and the locks that are held until it has."""

    def __init__(self, process: "subprocess.Popen[bytes]", held: locks.HeldLocks) -> None:
        self.process = process
        self.began = time.monotonic()
        self._held = held
        self._has_locks = True

    def let_go(self) -> None:
        if self._has_locks:
            self._has_locks = False
            self._held.let_go()

    def remove(self) -> None:
        self._held.remove()


class Guardian:
    """Keeps one supervisor running until a signal stops the worker."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids = IdSource(SystemClock())
        self._stopping_since: float | None = None
        self._signals = 0
        self._pause = _FIRST_PAUSE_SECONDS
        self._notices: dict[int, _Notice] = {}
        self._killed_for_lease = False
        self._first = True
        self._tries = 0
        self._deaths = 0

    def run(self) -> int:
        """Keep the worker running until it has stopped; return the exit code."""
        processes.set_name("limpet-guard")
        # Children that the shell started before it became the worker are not ended by it.
        self._foreign = set(processes.children_of_self())
        processes.adopt_orphans()
        self._signal_pipe = SignalPipe(*processes.GROUP_SIGNALS, signal.SIGCHLD)
        processes.take_signals()
        self._timer = processes.KernelTimer(self._plan.freeze_seconds, asleep=False)
        while True:
            session = self._begin()
            if session is None:
                self._wait_for_notices()
                return 1 if self._stopping_since is not None else WRONG_USAGE
            code = self._watch(session)
            after = self._clean_up_after(session, code)
            if after is not None:
                self._wait_for_notices()
                return after

    # -- one session

    def _begin(self) -> _Session | None:
        """Start a supervisor, with as many tries as that needs; None if the worker gives up."""
        while True:
            with contextlib.ExitStack() as undo:
                try:
                    session = self._start(undo)
                except OSError as error:
                    # The system lacks processes, memory, files or disk space just now.
                    print_line(f"a supervisor cannot start: {sentence_of(error)}")
                else:
                    undo.pop_all()
                    return session
            if self._first:
                return None
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
            self._rest(self._pause)
            if self._stopping_since is not None:
                return None

    def _start(self, undo: contextlib.ExitStack) -> _Session:
        """Start a supervisor; `undo` undoes all preparations if it cannot start."""
        session = self._ids.new()
        held = locks.take(session)
        undo.callback(held.remove)
        undo.callback(held.let_go)
        page = create()
        undo.callback(os.close, page)
        ours, theirs = socket.socketpair()
        undo.callback(ours.close)
        undo.callback(theirs.close)
        ours.setblocking(False)
        descriptors = {
            "page": page, "whole": held.whole, "core": held.core, "link": theirs.fileno()
        }  # fmt: skip
        order = {
            "first": self._first,
            "session": session,
            "descriptors": descriptors,
            "lock": {"path": held.path, "inode": held.inode, "nonce": held.nonce},
            "guardian": os.getpid(),
        }
        environment = {**os.environ, **self._plan.environment(order)}
        process = self._spawn("supervisor", environment, descriptors.values())
        theirs.close()
        # Read-only for this process too: only the supervisor writes until when the lease holds.
        view = Page(page)
        os.close(page)
        self._killed_for_lease = False
        return _Session(session, held, view, process, ours)

    def _spawn(
        self, module: str, environment: dict[str, str], descriptors: Iterable[int]
    ) -> "subprocess.Popen[bytes]":
        # No job runs meanwhile that a freeze could endanger, and a busy machine starts slowly.
        self._timer.rearm(max(_LONGEST_START_SECONDS, self._plan.freeze_seconds))
        return processes.spawn(f"limpet.worker.supervisor.{module}", environment, descriptors)

    def _watch(self, session: _Session) -> int:
        """Watch a supervisor until it is dead; return its exit code, negative for a signal."""
        poll = select.poll()
        poll.register(self._signal_pipe, select.POLLIN)
        poll.register(session.link, select.POLLIN)
        period = min(_LONGEST_PERIOD_SECONDS, self._plan.settings.lease / 20) * 1000
        while True:
            for descriptor, _ in poll.poll(period):
                if descriptor == self._signal_pipe.fileno():
                    self._signalled(session)
                elif not self._read_link(session):
                    poll.unregister(session.link)
            self._timer.rearm()
            self._reap(session.process.pid)
            if (code := session.process.poll()) is not None:
                self._read_link(session)
                return code
            self._enforce_lease(session)
            self._enforce_drain(session)

    def _signalled(self, session: _Session | None) -> None:
        """Take note of signals, and pass them on while there is a supervisor."""
        for number in self._signal_pipe.read():
            if number in (signal.SIGTERM, signal.SIGINT):
                self._signals += 1
                if self._signals <= 2:
                    # The second signal ends the drain: the time to stop counts from here.
                    self._stopping_since = time.monotonic()
                self._pass_on(session, b"stop\n")
            elif number == signal.SIGHUP:
                self._pass_on(session, b"reload\n")

    @staticmethod
    def _pass_on(session: _Session | None, command: bytes) -> None:
        if session is not None:
            with contextlib.suppress(OSError):
                session.link.send(command)

    def _read_link(self, session: _Session) -> bool:
        """Read the supervisor's reports of its state; return False once it has closed its end."""
        goes_on = False
        try:
            while text := session.link.recv(65536):
                session.unread += text
        except BlockingIOError:
            goes_on = True
        except OSError:
            pass
        *lines, session.unread = session.unread.split(b"\n")
        for line in lines:
            report = json.loads(line)
            session.url = report.get("url", session.url)
            session.ready = session.ready or report.get("ready", False)
            session.defect = session.defect or report.get("defect", False)
        return goes_on

    def _reap(self, supervisor: int | None = None) -> None:
        """Reap ended children, all but the supervisor: `_watch` reads its exit code."""
        for notice in self._notices.values():
            if time.monotonic() - notice.began > _SLOW_NOTICE_SECONDS:
                notice.let_go()
        for pid in ended_children():
            if pid == supervisor:
                return
            if pid in self._notices:
                notice = self._notices.pop(pid)
                delivered = notice.process.wait() == 0
                notice.let_go()
                if delivered:
                    notice.remove()
            else:
                os.waitpid(pid, 0)

    def _enforce_lease(self, session: _Session) -> None:
        if session.page.over:
            # The supervisor may be cut off, frozen or dead: others may run its jobs now.
            supervisor = session.process.pid
            processes.end_all(
                lambda: processes.descendants(supervisor), seconds=1.0, between=self._timer.rearm
            )
            if not self._killed_for_lease:
                self._killed_for_lease = True
                print_line("the lease ran out; everything that was running was ended")
        alive_at = session.page.alive_at
        if alive_at and now() - alive_at > self._plan.freeze_seconds * 1.5e6:
            processes.kill([session.process.pid])  # for systems where the kernel has no such timer

    def _enforce_drain(self, session: _Session) -> None:
        if time.monotonic() > self._drained_at() + _STOP_SECONDS:
            processes.kill([session.process.pid])

    def _drained_at(self) -> float:
        """When the drain ends, on the monotonic clock; never while the worker runs."""
        if self._stopping_since is None:
            return math.inf
        return self._stopping_since + (self._plan.settings.drain if self._signals == 1 else 0.0)

    # -- after a session

    def _clean_up_after(self, session: _Session, code: int) -> int | None:
        """End what a supervisor left, report its death; return an exit code, or None to go on."""
        me = os.getpid()
        notices = set(self._notices)
        others = self._foreign | notices
        gone = processes.end_all(
            lambda: processes.descendants(me, others) | (marks.marked(session.id)[0] - notices),
            between=self._timer.rearm,
        )
        self._reap()
        session.link.close()
        self._first = self._first and not session.ready
        lived = time.monotonic() - session.started
        if code in (DONE, WRONG_USAGE, ANEW) or not session.url:
            session.locks.let_go()
            session.locks.remove()
        elif gone:
            self._send_notice(session, code)
        else:
            print_line(
                "some processes of the worker cannot be killed; its jobs go on when its lease ends"
            )
            session.locks.let_go()
        if code == DONE or self._stopping_since is not None:
            return code if code in (DONE, WRONG_USAGE) else 1
        if code == WRONG_USAGE:
            return code
        if self._first and self._gives_up(code):
            return 1 if code < 0 else WRONG_USAGE
        if not session.ready:
            print_line(f"the supervisor ended with {code} before it was ready; it is started again")
        if session.ready and lived > _HEALTHY_SECONDS:
            self._pause, self._deaths = _FIRST_PAUSE_SECONDS, 0
        self._deaths += 1
        if not session.ready or (session.defect and self._deaths > _FREE_DEATHS):
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
            self._rest(self._pause)
        elif self._deaths > _FREE_DEATHS:
            self._rest(_SHORT_PAUSE_SECONDS)
        return 1 if self._stopping_since is not None else None

    def _gives_up(self, code: int) -> bool:
        """Whether a worker that was never ready has had its tries; a start for new code is none."""
        if code != ANEW:
            self._tries += 1
        if self._tries < _MOST_TRIES:
            return False
        print_line(
            f"the supervisor ended with {code} before it was ready; the worker was never ready in "
            f"{self._tries} tries and gives up"
        )
        return True

    def _rest(self, seconds: float) -> None:
        # In slices, so that the kernel timer is rearmed in time.
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._stopping_since is None:
            self._timer.rearm()
            self._signalled(None)
            time.sleep(0.05)

    def _send_notice(self, session: _Session, code: int) -> None:
        """Start a small program that reports the death of the session to the store, and exits.

        The locks are held until it has, or takes too long: a neighbour that got them would report
        the death too, but knows less of its cause.
        """
        frozen = (now() - session.page.alive_at) / 1e6 if session.page.alive_at else 0.0
        plan = self._plan
        notice = {
            "session": session.id, "code": code, "frozen": frozen, "limit": plan.freeze_seconds,
            "stopping": self._stopping_since is not None,
            "style": plan.log_style, "level": plan.log_level,
        }  # fmt: skip
        order = {"LIMPET_NOTICE": json.dumps({**notice, "url": session.url})}
        try:
            process = self._spawn("death_notice", {**os.environ, **order}, ())
        except OSError:
            session.locks.let_go()  # whoever sweeps next finds them free, which proves the death
        else:
            self._notices[process.pid] = _Notice(process, session.locks)

    def _wait_for_notices(self) -> None:
        began = time.monotonic()
        until = min(began + _STOP_SECONDS, self._drained_at() + _NOTICE_SECONDS)
        until = max(until, began + _SHORTEST_NOTICE_SECONDS)
        while self._notices and time.monotonic() < until:
            self._timer.rearm()
            self._reap()
            time.sleep(0.01)


def main() -> int:
    return Guardian(from_environment()).run()


if __name__ == "__main__":
    sys.exit(main())
