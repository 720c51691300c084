"""Runs a command under a permit, through a guardian that contains its process tree."""

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from limpet.gate.permits.permit import Permit
from limpet.gate.permits.stop import Stop
from limpet.gate.run.guardian import ORDER, PERIOD_MILLISECONDS, Fuse, heard
from limpet.host import marks, processes
from limpet.host.signals import SignalPipe
from limpet.worker.wire.page import Page, create

KILLED = 128
# `timeout` signals a process and then its group: within this time the same signal is one.
_SAME_SECONDS = 0.2


class PermitLease:
    """Until when the permit is certainly held, for the guardian to see."""

    def __init__(self) -> None:
        self.descriptor = create()
        self._page = Page(self.descriptor, writable=True)

    def renewed(self, moment: int) -> None:
        """It holds until then."""
        self._page.moment = moment

    def lost(self) -> None:
        """It does not hold any more."""
        self._page.moment = 1

    @contextlib.contextmanager
    def fuse(self) -> Iterator[Fuse]:
        """What kills this process meanwhile if it is stopped for longer than that."""
        fuse = Fuse(self._page)
        try:
            yield fuse
        finally:
            fuse.put_out()


class Interruption:
    """Signals that come before the command runs.

    They are noted, and nothing is raised where they strike: that might be in the middle of a write,
    with locks in hand that giving the permit back needs.
    """

    def __init__(self) -> None:
        self.stop = Stop()
        self.code = 0

    def hear(self, number: int, frame: object) -> None:
        """As a handler of signals."""
        self.code = self.code or KILLED + number
        self.stop.set()


def run_contained(
    permit: Permit,
    lease: PermitLease,
    words: Sequence[str],
    asked: Interruption,
    complain: Callable[[str], None],
) -> int:
    """Run the command; when this returns nothing of it is left. The answer is its exit code.

    `complain`: told what went wrong with it, as a sentence.
    """
    processes.adopt_orphans()  # where the guardian is killed, what it kept is left to us
    # Before the command begins it may be stopped for as long as one likes.
    with contextlib.closing(SignalPipe(*heard())) as signals, lease.fuse() as fuse:
        if asked.stop.is_set():  # in the moment before they were heard here
            return asked.code
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                guardian = _guardian(permit, lease, words, theirs)
            told = _follow(ours, signals, fuse)
        if told:
            fuse.put_out()  # nothing is left
        guardian.wait()
        if not told:
            _end_what_is_left(permit, fuse)
    return _ended(told, guardian.returncode, complain)


def _guardian(
    permit: Permit, lease: PermitLease, words: Sequence[str], link: socket.socket
) -> "subprocess.Popen[bytes]":
    held = permit.locks
    assert held is not None
    descriptors = {
        "page": lease.descriptor, "whole": held.whole, "core": held.core, "link": link.fileno()
    }  # fmt: skip
    order = {"session": permit.session, "words": list(words), "descriptors": descriptors}
    environment = {**os.environ, ORDER: json.dumps(order)}
    return processes.spawn("limpet.gate.run.guardian", environment, descriptors.values())


class _Signals:
    """What becomes of the signals that come while the command runs.

    The first of each kind is for the command: a service manager sends two kinds in a row, and so
    does a terminal that is closed. The same one again is from somebody who will not wait.
    """

    def __init__(self) -> None:
        self._passed_on: dict[int, float] = {}

    def order(self, number: int) -> bytes:
        """What the guardian is to do: pass it on, end everything, or nothing."""
        now = time.monotonic()
        if number not in self._passed_on:
            self._passed_on[number] = now
            return b"%d\n" % number
        return b"" if now - self._passed_on[number] < _SAME_SECONDS else b"end\n"


def _follow(link: socket.socket, pipe: SignalPipe, fuse: Fuse) -> dict[str, Any]:
    """Tell the guardian of signals until it says what became of the command."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    said = b""
    signals = _Signals()
    while True:
        fuse.put_off()
        for descriptor, _ in poll.poll(PERIOD_MILLISECONDS):
            if descriptor == pipe.fileno():
                for number in pipe.read():
                    with contextlib.suppress(OSError):
                        link.sendall(signals.order(number))
                continue
            try:
                text = link.recv(65536)
            except ConnectionResetError:
                text = b""
            said += text
            if not text:
                return dict(json.loads(said)) if said.endswith(b"\n") else {}


def _end_what_is_left(permit: Permit, fuse: Fuse) -> None:
    """Of the command whose guardian was killed."""
    session = permit.session

    def tree() -> set[int]:
        return processes.descendants(os.getpid()) | marks.marked(session or "")[0]

    processes.end_all(tree, seconds=10.0, between=fuse.put_off)
    for _ in processes.reaped():
        pass


def _ended(told: dict[str, Any], guardian: int, complain: Callable[[str], None]) -> int:
    if not told:
        return KILLED - guardian if guardian < 0 else 1
    if "error" in told:
        complain(f"the command cannot be run: {told['error']}.")
    elif not told["gone"]:
        complain("something of the command would not die.")
    code = int(told["code"])
    return KILLED - code if code < 0 else code
