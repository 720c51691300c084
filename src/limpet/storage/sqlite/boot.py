"""Checks whether another machine is still using the file."""

import os
import time
from collections.abc import Callable

from limpet.domain.clock import Clock
from limpet.domain.errors import StoreRefused
from limpet.domain.plural import number_of

Renewals = dict[str, tuple[int, int, int]]
"""Sessions of other boots: id → (number of renewals, wall time of the last renewal, lease)."""


class ForeignSessions(Exception):
    """Sessions of another boot that must be watched before anything is written."""

    def __init__(self, renewals: Renewals) -> None:
        super().__init__(f"{number_of(len(renewals), 'session')} of another boot")
        self.renewals = renewals


def from_before_restart(path: str, clock: Clock, found: Renewals) -> bool:
    """Whether everything these sessions wrote is older than this machine's start.

    Then the restart has ended them. Otherwise they may belong to another machine with the same
    file.
    """
    started = clock.wall() - clock.boot()
    return all(renewed < started for _, renewed, _ in found.values()) and _written(path) < started


def watch(path: str, found: Renewals, read: Callable[[], Renewals]) -> None:
    """Watch sessions of another boot for one lease; refuse the file if one of them renews.

    A renewal means that the file's locks do not reach the machine of that session. The caller must
    not hold the writer lock meanwhile: if the locks do reach that machine, its sessions could not
    renew and would look dead.
    """
    until = time.monotonic() + max(lease for _, _, lease in found.values()) / 1e6
    while time.monotonic() < until:
        time.sleep(0.05)
        for session, (renewals, _, _) in read().items():
            if session not in found or found[session][0] != renewals:
                raise StoreRefused(
                    f"{path} is being written by another machine (session {session} goes on "
                    f"renewing), and SQLite's locks do not reach it. Give each machine its own "
                    f"file, or use a redis:// or postgresql:// store for both."
                )


def _written(path: str) -> int:
    times = [
        os.stat(path + suffix).st_mtime_ns // 1000
        for suffix in ("", "-wal")
        if os.path.exists(path + suffix)
    ]
    return max(times, default=0)
