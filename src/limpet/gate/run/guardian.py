"""The guardian of a command that holds a permit: starts it, and leaves nothing of it behind.

It is a process of its own between `limpet gate run` (the front process) and the command, so that it
outlives a kill of either. It ends the command's whole tree when the command has ended, when the
front process is gone or orders it, and when the lease may have passed to another. If the guardian
itself is stopped for that long, the kernel kills it; the same goes for the front process. Imports
only the standard library, host and the page.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from limpet.host import marks, processes
from limpet.host.signals import SignalPipe, ended_children
from limpet.worker.wire.page import Page, now

ORDER = "LIMPET_RUN_ORDER"
# The exit code of a shell for a file that exists and is no program.
CANNOT_BE_RUN = 126
# The signals by which a person or a service manager stops a command.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# How often front process and guardian show that they are not stopped.
PERIOD_MILLISECONDS = 100
# A stopped process is killed this long after the permit's certain end: later than a running one
# looks, and early enough for neighbours to end what is left before the lease is over, which is at
# least a second after the certain end.
_STOPPED_SECONDS = 0.3
# A signal to the whole group, as a terminal sends it, reaches all its processes within this time.
_GROUP_SECONDS = 0.05


def handled_signals() -> list[int]:
    """Those of `STOPPING` that this process does not ignore; under nohup it ignores some, and its
    children inherit that.
    """
    return [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]


class Fuse:
    """Has the kernel kill this process if it stays stopped until its permit may be another's.

    Without it nobody would end the command when front process and guardian are both stopped, by one
    Ctrl-Z, or when one is stopped and the other killed. Once both are dead, their locks are free,
    and a neighbour on this host ends what is left before it takes the room.

    The time that the machine sleeps does not count. If it did, both would be killed as the machine
    wakes, and with no neighbour there the command's processes would go on. Instead both run on, see
    that the permit has ended, and end the command.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._timer = processes.KernelTimer(self._left(), asleep=False)

    def put_off(self) -> None:
        """Show that this process runs: wait again for the end of the permit."""
        self._timer.rearm(self._left())

    def put_out(self) -> None:
        """Disarm it: nothing is left that would have to be ended."""
        self._timer.rearm(0)

    def _left(self) -> float:
        return max(0, self._page.lease_ends_at - now()) / 1e6 + _STOPPED_SECONDS


class RunGuardian:
    """Starts one command, watches it, and ends all of it."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        descriptors = order["descriptors"]
        self._session: str = order["session"]
        self._words: list[str] = order["words"]
        self._whole: int = descriptors["whole"]
        self._link = socket.socket(fileno=descriptors["link"])
        self._link.setblocking(False)
        self._page = Page(descriptors["page"])
        self._seen: dict[int, float] = {}
        self._requests: list[tuple[int, float]] = []
        self._received = b""
        for descriptor in descriptors.values():
            os.set_inheritable(descriptor, False)

    def run(self) -> None:
        """Run until nothing of the command is left; reports to the front process how it ended."""
        processes.set_name("limpet-run")
        processes.adopt_orphans()
        self._signal_pipe = SignalPipe(*handled_signals(), signal.SIGCHLD)
        processes.take_signals()
        self._fuse = Fuse(self._page)
        if self._page.over:  # this process was stopped before it began
            self._report(why="lost", code=1, gone=True)
            return
        try:
            self._command = self._start()
        except OSError as error:
            what = f"{self._words[0]}: {error.strerror or error}"
            self._report(error=what, code=CANNOT_BE_RUN)
            return
        why = self._watch()
        gone = processes.end_all(self._tree, seconds=10.0, between=self._fuse.put_off)
        self._fuse.put_out()
        self._report(why=why, code=self._command.wait() if gone else 1, gone=gone)

    def _start(self) -> "subprocess.Popen[bytes]":
        me = os.getpid()

        def tie() -> None:
            # Needed if front process and guardian are killed at the same moment.
            processes.die_with_parent()
            if os.getppid() != me:
                os._exit(1)

        environment = {**os.environ, marks.MARK: self._session}
        return subprocess.Popen(
            self._words,
            env=environment,
            pass_fds=(self._whole,),
            preexec_fn=tie,  # noqa: PLW1509 - there is one thread here
        )

    def _tree(self) -> set[int]:
        return processes.descendants(os.getpid()) | marks.marked(self._session)[0]

    def _watch(self) -> str:
        """Watch until the command has ended or must end; returns why."""
        poll = select.poll()
        poll.register(self._signal_pipe, select.POLLIN)
        poll.register(self._link, select.POLLIN)
        while True:
            poll.poll(PERIOD_MILLISECONDS)
            self._fuse.put_off()
            self._note_signals()
            if not self._listen():
                return "asked"
            self._pass_on()
            if self._page.over:
                return "lost"
            if self._reap():
                return "ended"

    def _note_signals(self) -> None:
        for number in self._signal_pipe.read():
            self._seen[number] = time.monotonic()

    def _listen(self) -> bool:
        """Read what the front process sends; False if it is gone, or orders the command's end."""
        try:
            while text := self._link.recv(4096):
                self._received += text
        except BlockingIOError:
            *lines, self._received = self._received.split(b"\n")
            self._requests += [(int(line), time.monotonic()) for line in lines if line != b"end"]
            return b"end" not in lines
        except OSError:
            pass
        return False

    def _pass_on(self) -> None:
        """Pass on signals that were sent to the front process alone. A signal to the whole group
        has reached the command by itself, and this process too.
        """
        now = time.monotonic()
        due = [request for request in self._requests if now - request[1] > _GROUP_SECONDS]
        for request in due:
            self._requests.remove(request)
            number, received_at = request
            if abs(self._seen.get(number, -1.0) - received_at) > 10 * _GROUP_SECONDS:
                processes.kill([self._command.pid], number)

    def _reap(self) -> bool:
        """Reap orphans that were adopted; True once the command itself has ended."""
        for pid in ended_children():
            if pid == self._command.pid:
                break
            os.waitpid(pid, 0)
        return self._command.poll() is not None

    def _report(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            self._link.setblocking(True)
            self._link.sendall(json.dumps(facts).encode() + b"\n")


def main() -> int:
    RunGuardian(json.loads(os.environ.pop(ORDER))).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
