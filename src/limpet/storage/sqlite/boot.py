"""Which start of which machine this is, and whether another one is still at work on the file."""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from limpet.domain.clock import Clock
from limpet.domain.errors import StoreRefused

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """An id that every process of this machine shares until it restarts."""
    if sys.platform == "darwin":
        libc = ctypes.CDLL(None)
        size = ctypes.c_size_t(64)
        text = ctypes.create_string_buffer(64)
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0) == 0:
            return text.value.decode()
    try:
        return _LINUX.read_text().strip()
    except OSError as error:
        raise StoreRefused(
            f"this system does not tell its boot id ({error}); a SQLite store needs it to know "
            f"which workers a restart has ended. Use a redis:// or postgresql:// store."
        ) from error


Renewals = dict[str, tuple[int, int, int]]
"""session id → (number of renewals, wall time of the last, lease), of sessions of other boots."""


def refuse_foreign(path: str, clock: Clock, read: Callable[[], Renewals]) -> bool:
    """Find out whether sessions of another boot are dead; True if there were any.

    After a restart of this machine they are, and everything written for them is older than the
    restart. Where that does not show, they may belong to another machine that has the same file:
    then they are watched for one lease, and if one renews, the file is refused, because its locks
    do not reach that machine.
    """
    first = read()
    if not first:
        return False
    started = clock.wall() - clock.boot()
    if all(renewed < started for _, renewed, _ in first.values()) and _written(path) < started:
        return True
    until = time.monotonic() + max(lease for _, _, lease in first.values()) / 1e6
    while time.monotonic() < until:
        time.sleep(0.05)
        now = read()
        for session, (renewals, _, _) in now.items():
            if session not in first or first[session][0] != renewals:
                raise StoreRefused(
                    f"{path} is being written by another machine (session {session} goes on "
                    f"renewing), and SQLite's locks do not reach it. Give each machine its own "
                    f"file, or use a redis:// or postgresql:// store for both."
                )
    return True


def _written(path: str) -> int:
    times = [
        os.stat(path + suffix).st_mtime_ns // 1000
        for suffix in ("", "-wal")
        if os.path.exists(path + suffix)
    ]
    return max(times, default=0)
