"""The page: until when the lease certainly holds, for every process of a session to see.

The supervisor maps it for writing and then seals it, so that whoever maps it later can only read.
Standard library only, because the guardian imports it.
"""

import contextlib
import fcntl
import mmap
import os
import time

from limpet.host.processes import LINUX

_SIZE = mmap.PAGESIZE
_F_SEAL_FUTURE_WRITE = 0x10
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_MOMENT, _TICK = 0, 1


def now() -> int:
    """Microseconds on the clock of leases (BOOTTIME)."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def create() -> int:
    """A new page, all zeros, as a descriptor."""
    if not LINUX:
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.truncate(_SIZE)
            return os.dup(file.fileno())
    descriptor = os.memfd_create("limpet-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, _SIZE)
    return descriptor


class Page:
    """The page as a process sees it; times are microseconds of BOOTTIME."""

    def __init__(self, descriptor: int, *, writable: bool = False) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(descriptor, _SIZE, mmap.MAP_SHARED, protection)
        # Whole words, so that a reader never sees half of a moment.
        self._words = memoryview(self._map).cast("Q")
        if writable and LINUX:
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _F_SEAL_FUTURE_WRITE
            # Kernels before 5.1 do not know the seal; then the page is only not given away.
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)

    @property
    def moment(self) -> int:
        """Until when the lease certainly holds; 0 before the session is registered."""
        return self._words[_MOMENT]

    @moment.setter
    def moment(self, value: int) -> None:
        self._words[_MOMENT] = value

    @property
    def tick(self) -> int:
        """When the supervisor was last seen to run."""
        return self._words[_TICK]

    @tick.setter
    def tick(self, value: int) -> None:
        self._words[_TICK] = value

    @property
    def over(self) -> bool:
        """Whether the lease may have passed to another."""
        return 0 < self.moment <= now()
