"""The pipe of start tokens between the supervisor and one executor.

For each job that is given to the executor, one byte is written. The executor reads one before it
starts the next job, in the order in which the jobs were given. Whoever reads a byte has a job, so
no job is both started and taken back.
"""

import contextlib
import fcntl
import os
import struct
import termios

from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.frames import START_TOKEN

_COUNT = struct.Struct("i")


class StartTokens:
    """`for_executor`: the descriptor from which the executor reads."""

    def __init__(self) -> None:
        self.for_executor, self._writer = os.pipe()
        for descriptor in (self.for_executor, self._writer):
            os.set_blocking(descriptor, False)

    def give(self, count: int) -> None:
        """Let the executor start that many more jobs."""
        try:
            os.write(self._writer, START_TOKEN * count)
        except BlockingIOError:
            raise NotUnderstood("its pipe of start tokens was filled by another process") from None

    def take_back(self) -> int:
        """Read the tokens that are left; returns how many jobs can no longer start."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while some := os.read(self.for_executor, 4096):
                taken += len(some)
        return taken

    @property
    def left(self) -> int:
        """How many jobs have not started."""
        buffer = fcntl.ioctl(self.for_executor, termios.FIONREAD, b"\0\0\0\0")
        left: int = _COUNT.unpack(buffer)[0]
        return left

    def close(self) -> None:
        os.close(self.for_executor)
        os.close(self._writer)
