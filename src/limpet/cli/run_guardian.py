"""The guardian of a command that holds a permit: starts it, and leaves nothing of it behind.

A process of its own between `limpet gate run` and the command, so that it outlives a kill of
either. It ends the command's whole tree when the command has ended, when the front process is gone,
when that asks for it, and when the lease may have passed to another. If it is stopped itself for so
long, the kernel kills it, and so the front process. Standard library only.
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
from limpet.worker.page import Page, now

ORDER = "LIMPET_RUN_ORDER"
# What a shell answers for what is there and is no program.
CANNOT_BE_RUN = 126
# What a person or a service manager sends to stop a command.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# How often front process and guardian show that they are not stopped.
PERIOD_MILLISECONDS = 100
# So long after the permit's moment one that is stopped is killed: later than one that runs looks,
# and early enough for neighbours to end what is left before the lease is over, a second after it.
_STOPPED_SECONDS = 0.3
# A signal to the whole group, as a terminal sends it, reaches us all within this time.
_GROUP_SECONDS = 0.05


def heard() -> list[int]:
    """Those of `STOPPING` that are not ignored here, as under nohup; children inherit that."""
    return [each for each in STOPPING if signal.getsignal(each) is not signal.SIG_IGN]


class Fuse:
    """Has the kernel kill this process if it is stopped until its permit may be another's.

    Nobody would end the command then: where front process and guardian are stopped both, by one
    Ctrl-Z, or one is and the other is killed. Their locks are free once both are dead, which lets a
    neighbour on this host end what is left before it takes the room.

    The time that the machine sleeps does not count. Else both would be killed as it wakes, and
    where no neighbour is, what the command started would go on; so they see by themselves that the
    moment has passed, and end it.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._timer = processes.KernelTimer(self._left(), asleep=False)

    def put_off(self) -> None:
        """Say that this process runs."""
        self._timer.rearm(self._left())

    def put_out(self) -> None:
        """Nothing is left that would have to be ended."""
        self._timer.rearm(0)

    def _left(self) -> float:
        return max(0, self._page.moment - now()) / 1e6 + _STOPPED_SECONDS


class RunGuardian:
    """Keeps one command."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        descriptors = order["descriptors"]
        self._session: str = order["session"]
        self._words: list[str] = order["words"]
        self._whole: int = descriptors["whole"]
        self._link = socket.socket(fileno=descriptors["link"])
        self._link.setblocking(False)
        self._page = Page(descriptors["page"])
        self._seen: dict[int, float] = {}
        self._asked: list[tuple[int, float]] = []
        self._heard = b""
        for each in descriptors.values():
            os.set_inheritable(each, False)

    def run(self) -> None:
        """Until nothing of the command is left; what became of it is told to the front process."""
        processes.set_name("limpet-run")
        processes.adopt_orphans()
        self._signal_pipe = SignalPipe(*heard(), signal.SIGCHLD)
        processes.take_signals()
        self._fuse = Fuse(self._page)
        if self._page.over:  # it was stopped before it began
            self._tell(why="lost", code=1, gone=True)
            return
        try:
            self._command = self._start()
        except OSError as error:
            what = f"{self._words[0]}: {error.strerror or error}"
            self._tell(error=what, code=CANNOT_BE_RUN)
            return
        why = self._watch()
        gone = processes.end_all(self._tree, seconds=10.0, between=self._fuse.put_off)
        self._fuse.put_out()
        self._tell(why=why, code=self._command.wait() if gone else 1, gone=gone)

    def _start(self) -> "subprocess.Popen[bytes]":
        me = os.getpid()

        def tie() -> None:
            # For the moment in which front and guardian are killed together.
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
        """Until the command must not go on; the answer is why."""
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
        """Hear the front process; False if it is gone, or wants the command to end at once."""
        try:
            while text := self._link.recv(4096):
                self._heard += text
        except BlockingIOError:
            *lines, self._heard = self._heard.split(b"\n")
            self._asked += [(int(line), time.monotonic()) for line in lines if line != b"end"]
            return b"end" not in lines
        except OSError:
            pass
        return False

    def _pass_on(self) -> None:
        """Send on what was sent to the front process alone: what was sent to the whole group has
        reached the command by itself, and us too.
        """
        now = time.monotonic()
        due = [each for each in self._asked if now - each[1] > _GROUP_SECONDS]
        for each in due:
            self._asked.remove(each)
            number, asked = each
            if abs(self._seen.get(number, -1.0) - asked) > 10 * _GROUP_SECONDS:
                processes.kill([self._command.pid], number)

    def _reap(self) -> bool:
        """Reap what was left to us; True once the command itself has ended."""
        for pid in ended_children():
            if pid == self._command.pid:
                break
            os.waitpid(pid, 0)
        return self._command.poll() is not None

    def _tell(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            self._link.setblocking(True)
            self._link.sendall(json.dumps(facts).encode() + b"\n")


def main() -> int:
    RunGuardian(json.loads(os.environ.pop(ORDER))).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
