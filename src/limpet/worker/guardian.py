"""The guardian: root of the worker's tree, fit to be PID 1.

It runs no user code, has no threads and imports the standard library only, so that nothing but the
kernel can keep it from its work: start a supervisor, watch it, forward signals, and when the lease
may have passed or the supervisor is gone, see to it that nothing of the session lives on.
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

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.printable import printable
from limpet.host import locks, marks, processes
from limpet.host.shortage import sentence_of
from limpet.host.signals import SignalPipe, ended_children
from limpet.worker.page import Page, create, now
from limpet.worker.plan import ANEW, DONE, WRONG_USAGE, Plan, from_environment

_LONGEST_PERIOD_SECONDS = 0.25
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 30.0
# A supervisor that lived this long was not part of a crash loop.
_HEALTHY_SECONDS = 30.0
# So many times in a row it is started again at once.
_FREE_DEATHS = 3
_BREATH_SECONDS = 0.1
# So often one that was never ready is tried.
_MOST_TRIES = 5
# Beyond the drain: how long the supervisor may take to stop, confirm and release, and until when
# its death may be told; one that cannot be told by then is told by whoever outlives us.
_LAST_SECONDS, _VERY_LAST_SECONDS = 2.5, 2.9
_BRIEFEST_NOTICE_SECONDS = 0.3
# A notice that takes longer, on a machine with too much to do, keeps nobody else from finding out.
_SLOW_NOTICE_SECONDS = 1.0


def say(text: str) -> None:
    """One line on standard error, if somebody reads it: nothing may keep or end the guardian."""
    with contextlib.suppress(OSError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"limpet: {printable(text)}\n".encode())


class _Session:
    """One supervisor and what belongs to it."""

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of the store
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
        self.heard = b""


class _Notice:
    """A program that tells the store of a death, and the locks that are kept until it has."""

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
    """Keeps one supervisor running until the worker is asked to stop."""

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
        """Until the worker has stopped; the answer is the exit code."""
        processes.set_name("limpet-guard")
        # What the shell started before it became the worker is not ours to end.
        self._foreign = set(processes.children_of_self())
        processes.adopt_orphans()
        self._signal_pipe = SignalPipe(*processes.GROUP_SIGNALS, signal.SIGCHLD)
        processes.take_signals()
        self._timer = processes.KernelTimer(self._plan.frozen, asleep=False)
        while True:
            session = self._begin()
            if session is None:
                self._wait_for_notices()
                return 1 if self._stopping_since is not None else WRONG_USAGE
            code = self._watch(session)
            after = self._bury(session, code)
            if after is not None:
                self._wait_for_notices()
                return after

    # -- one session

    def _begin(self) -> _Session | None:
        """Start a supervisor, however often that must be tried; None if there will be none."""
        while True:
            with contextlib.ExitStack() as made:
                try:
                    session = self._start(made)
                except OSError as error:
                    # No more processes, memory, files or room just now.
                    say(f"a supervisor cannot start: {sentence_of(error)}")
                else:
                    made.pop_all()
                    return session
            if self._first:
                return None
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
            self._rest(self._pause)
            if self._stopping_since is not None:
                return None

    def _start(self, made: contextlib.ExitStack) -> _Session:
        """Start a supervisor; `made` takes back what was made for one that could not start."""
        session = self._ids.new()
        held = locks.take(session)
        made.callback(held.remove)
        made.callback(held.let_go)
        page = create()
        made.callback(os.close, page)
        ours, theirs = socket.socketpair()
        made.callback(ours.close)
        made.callback(theirs.close)
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
        process = processes.spawn("limpet.worker.supervisor", environment, descriptors.values())
        theirs.close()
        # Read-only for this process too: only the supervisor says how long the lease holds.
        view = Page(page)
        os.close(page)
        self._killed_for_lease = False
        return _Session(session, held, view, process, ours)

    def _watch(self, session: _Session) -> int:
        """Until the supervisor is dead; the answer is its exit code, negative for a signal."""
        poll = select.poll()
        poll.register(self._signal_pipe, select.POLLIN)
        poll.register(session.link, select.POLLIN)
        period = min(_LONGEST_PERIOD_SECONDS, self._plan.settings.lease / 20) * 1000
        while True:
            for descriptor, _ in poll.poll(period):
                if descriptor == self._signal_pipe.fileno():
                    self._signalled(session)
                elif not self._listen(session):
                    poll.unregister(session.link)
            self._timer.rearm()
            self._reap(session.process.pid)
            if (code := session.process.poll()) is not None:
                self._listen(session)
                return code
            self._keep_to_the_lease(session)
            self._keep_to_the_drain(session)

    def _signalled(self, session: _Session | None) -> None:
        """Take note of signals, and pass them on while there is a supervisor."""
        for number in self._signal_pipe.read():
            if number in (signal.SIGTERM, signal.SIGINT):
                self._signals += 1
                if self._signals <= 2:
                    self._stopping_since = time.monotonic()  # the second begins anew, at once
                self._pass_on(session, b"stop\n")
            elif number == signal.SIGHUP:
                self._pass_on(session, b"reload\n")

    @staticmethod
    def _pass_on(session: _Session | None, word: bytes) -> None:
        if session is not None:
            with contextlib.suppress(OSError):
                session.link.send(word)

    def _listen(self, session: _Session) -> bool:
        """Hear what the supervisor says of itself; False when it says nothing any more."""
        goes_on = False
        try:
            while text := session.link.recv(65536):
                session.heard += text
        except BlockingIOError:
            goes_on = True
        except OSError:
            pass
        *lines, session.heard = session.heard.split(b"\n")
        for line in lines:
            told = json.loads(line)
            session.url = told.get("url", session.url)
            session.ready = session.ready or told.get("ready", False)
            session.defect = session.defect or told.get("defect", False)
        return goes_on

    def _reap(self, supervisor: int | None = None) -> None:
        """Reap what was left to us; the supervisor's end is read by whoever watches it."""
        for notice in self._notices.values():
            if time.monotonic() - notice.began > _SLOW_NOTICE_SECONDS:
                notice.let_go()
        for pid in ended_children():
            if pid == supervisor:
                return
            if pid in self._notices:
                notice = self._notices.pop(pid)
                told = notice.process.wait() == 0
                notice.let_go()
                if told:
                    notice.remove()
            else:
                os.waitpid(pid, 0)

    def _keep_to_the_lease(self, session: _Session) -> None:
        if session.page.over:
            # Whether the supervisor is cut off, frozen or dead: another may run its jobs now.
            supervisor = session.process.pid
            processes.end_all(
                lambda: processes.descendants(supervisor), seconds=1.0, between=self._timer.rearm
            )
            if not self._killed_for_lease:
                self._killed_for_lease = True
                say("the lease ran out; everything that was running was ended")
        tick = session.page.tick
        if tick and now() - tick > self._plan.frozen * 1.5e6:
            processes.kill([session.process.pid])  # where the kernel has no timer for it

    def _keep_to_the_drain(self, session: _Session) -> None:
        if time.monotonic() > self._drained_at() + _LAST_SECONDS:
            processes.kill([session.process.pid])

    def _drained_at(self) -> float:
        """When the drain is over."""
        if self._stopping_since is None:
            return math.inf
        return self._stopping_since + (self._plan.settings.drain if self._signals == 1 else 0.0)

    # -- after a session

    def _bury(self, session: _Session, code: int) -> int | None:
        """End what a supervisor left, tell the store, and decide: an exit code, or go on."""
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
            self._post(session, code)
        else:
            say("something of the worker would not die; its lease decides when its jobs go on")
            session.locks.let_go()
        if code == DONE or self._stopping_since is not None:
            return code if code in (DONE, WRONG_USAGE) else 1
        if code == WRONG_USAGE:
            return code
        if self._first and self._gives_up(code):
            return 1 if code < 0 else WRONG_USAGE
        if not session.ready:
            say(f"the supervisor ended with {code} before it was ready; it is tried again")
        if session.ready and lived > _HEALTHY_SECONDS:
            self._pause, self._deaths = _FIRST_PAUSE_SECONDS, 0
        self._deaths += 1
        if not session.ready or (session.defect and self._deaths > _FREE_DEATHS):
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)
            self._rest(self._pause)
        elif self._deaths > _FREE_DEATHS:
            self._rest(_BREATH_SECONDS)
        return 1 if self._stopping_since is not None else None

    def _gives_up(self, code: int) -> bool:
        """Whether a worker that was never ready has been tried often enough; new code is no try."""
        if code != ANEW:
            self._tries += 1
        if self._tries < _MOST_TRIES:
            return False
        say(
            f"the supervisor ended with {code} before it was ready; the worker was never ready in "
            f"{self._tries} tries and gives up"
        )
        return True

    def _rest(self, seconds: float) -> None:
        # In slices, so that the kernel timer sees that we live.
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._stopping_since is None:
            self._timer.rearm()
            self._signalled(None)
            time.sleep(0.05)

    def _post(self, session: _Session, code: int) -> None:
        """Tell the store that the session is dead; a small program does, and exits.

        The locks are kept until it has, or takes long: a neighbour that got them would know less of
        the cause.
        """
        frozen = (now() - session.page.tick) / 1e6 if session.page.tick else 0.0
        plan = self._plan
        notice = {
            "session": session.id, "code": code, "frozen": frozen, "limit": plan.frozen,
            "stopping": self._stopping_since is not None,
            "style": plan.log_style, "level": plan.log_level,
        }  # fmt: skip
        told = {"LIMPET_NOTICE": json.dumps({**notice, "url": session.url})}
        try:
            process = processes.spawn("limpet.worker.notice", {**os.environ, **told}, ())
        except OSError:
            session.locks.let_go()  # the next one who looks finds them free, which is proof
        else:
            self._notices[process.pid] = _Notice(process, session.locks)

    def _wait_for_notices(self) -> None:
        began = time.monotonic()
        until = min(began + _LAST_SECONDS, self._drained_at() + _VERY_LAST_SECONDS)
        until = max(until, began + _BRIEFEST_NOTICE_SECONDS)
        while self._notices and time.monotonic() < until:
            self._timer.rearm()
            self._reap()
            time.sleep(0.01)


def main() -> int:
    return Guardian(from_environment()).run()


if __name__ == "__main__":
    sys.exit(main())
