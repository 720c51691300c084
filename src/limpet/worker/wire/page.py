"""The page: memory that shows every process of a session until when the lease certainly holds.

The supervisor maps the page for writing and then seals it, so that a process that maps it later can
only read. Imports only the standard library and host, because the guardian imports it.
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

_LEASE_ENDS_AT, _ALIVE_AT = 0, 1


def now() -> int:
    """The present moment on the clock of leases (BOOTTIME), in microseconds."""
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
    """The page as a process sees it; moments are microseconds of BOOTTIME."""

    def __init__(self, descriptor: int, *, writable: bool = False) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(descriptor, _SIZE, mmap.MAP_SHARED, protection)
        # Machine words, which are written at once: a reader never sees half of a moment.
        self._words = memoryview(self._map).cast("Q")
        if writable and LINUX:
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _F_SEAL_FUTURE_WRITE
            # Kernels before 5.1 lack the seal; there the page is safe only because it stays here.
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)

    @property
    def lease_ends_at(self) -> int:
        """Until when the lease certainly holds; 0 before the session is registered."""
        return self._words[_LEASE_ENDS_AT]

    @lease_ends_at.setter
    def lease_ends_at(self, value: int) -> None:
        self._words[_LEASE_ENDS_AT] = value

    @property
    def alive_at(self) -> int:
        """When the supervisor last showed that it runs."""
        return self._words[_ALIVE_AT]

    @alive_at.setter
    def alive_at(self, value: int) -> None:
        self._words[_ALIVE_AT] = value

    @property
    def over(self) -> bool:
        """Whether the lease has ended, so that others may run its jobs."""
        return 0 < self.lease_ends_at <= now()
