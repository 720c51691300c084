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
from limpet.gate.run.guardian import ORDER, PERIOD_MILLISECONDS, Fuse, handled_signals
from limpet.host import marks, processes
from limpet.host.signals import SignalPipe
from limpet.worker.wire.page import Page, create

# A process that a signal has ended has this exit code plus the signal's number, as in a shell.
KILLED = 128
# `timeout` signals a process and then its group: the same signal again within this time is a copy.
_SAME_SECONDS = 0.2


class PermitLease:
    """A page that shows the guardian until when the permit is certainly held."""

    def __init__(self) -> None:
        self.descriptor = create()
        self._page = Page(self.descriptor, writable=True)

    def renewed(self, lease_ends_at: int) -> None:
        """Show that the permit is held until then."""
        self._page.lease_ends_at = lease_ends_at

    def lost(self) -> None:
        """Show that the permit is not held any more."""
        self._page.lease_ends_at = 1

    @contextlib.contextmanager
    def fuse(self) -> Iterator[Fuse]:
        """Have the kernel kill this process if it is stopped for longer than the permit is held."""
        fuse = Fuse(self._page)
        try:
            yield fuse
        finally:
            fuse.put_out()


class Interruption:
    """Takes the signals that come before the command runs.

    They are noted, and nothing is raised where they strike: that might be in the middle of a write,
    while locks are held that giving the permit back needs.
    """

    def __init__(self) -> None:
        self.stop = Stop()
        self.code = 0

    def handle(self, number: int, frame: object) -> None:
        """Note a signal; to be installed as the handler."""
        self.code = self.code or KILLED + number
        self.stop.set()


def run_contained(
    permit: Permit,
    lease: PermitLease,
    words: Sequence[str],
    interruption: Interruption,
    complain: Callable[[str], None],
) -> int:
    """Run the command and return its exit code; nothing of the command is left then.

    `complain`: called with a sentence about what went wrong.
    """
    processes.adopt_orphans()  # takes over what a killed guardian leaves behind
    # The fuse begins only here: before the command runs, this process may be stopped for any time.
    with contextlib.closing(SignalPipe(*handled_signals())) as signals, lease.fuse() as fuse:
        if interruption.stop.is_set():  # a signal came before the pipe took them
            return interruption.code
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                guardian = _guardian(permit, lease, words, theirs)
            report = _follow(ours, signals, fuse)
        if report:
            fuse.put_out()  # nothing is left
        guardian.wait()
        if not report:
            _end_what_is_left(permit, fuse)
    return _exit_code(report, guardian.returncode, complain)


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
    """Decides what to do with the signals that come while the command runs.

    The first of each kind is passed on to the command: a service manager sends two kinds in a row,
    and so does a terminal that is closed. The same kind again means that the sender will not wait.
    """

    def __init__(self) -> None:
        self._passed_on: dict[int, float] = {}

    def order(self, number: int) -> bytes:
        """The order to the guardian: pass the signal on, end everything, or (empty) nothing."""
        now = time.monotonic()
        if number not in self._passed_on:
            self._passed_on[number] = now
            return b"%d\n" % number
        return b"" if now - self._passed_on[number] < _SAME_SECONDS else b"end\n"


def _follow(link: socket.socket, pipe: SignalPipe, fuse: Fuse) -> dict[str, Any]:
    """Pass signals to the guardian until it reports how the command ended.

    Returns the report; it is empty if the guardian died without one.
    """
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    received = b""
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
            received += text
            if not text:
                return dict(json.loads(received)) if received.endswith(b"\n") else {}


def _end_what_is_left(permit: Permit, fuse: Fuse) -> None:
    """End the processes of a command whose guardian was killed."""
    session = permit.session

    def tree() -> set[int]:
        return processes.descendants(os.getpid()) | marks.marked(session or "")[0]

    processes.end_all(tree, seconds=10.0, between=fuse.put_off)
    for _ in processes.reaped():
        pass


def _exit_code(report: dict[str, Any], guardian: int, complain: Callable[[str], None]) -> int:
    if not report:
        return KILLED - guardian if guardian < 0 else 1
    if "error" in report:
        complain(f"the command cannot be run: {report['error']}.")
    elif not report["gone"]:
        complain("not every process of the command could be ended.")
    code = int(report["code"])
    return KILLED - code if code < 0 else code
