"""A clock that stands still until a test moves it."""

import threading
from datetime import timedelta

from limpet.domain.duration import microseconds

_NEW_YEAR_2030_US = 1_893_456_000_000_000
_AN_HOUR_AFTER_BOOT_US = 3_600_000_000


class FakeClock:
    """A `Clock` that a test moves; any thread may read it."""

    def __init__(self, wall: int = _NEW_YEAR_2030_US, boot: int = _AN_HOUR_AFTER_BOOT_US) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._boot = boot

    def wall(self) -> int:
        with self._lock:
            return self._wall

    def boot(self) -> int:
        with self._lock:
            return self._boot

    def advance(self, by: timedelta) -> None:
        """Let time pass: wall and boot time move together, and only forward."""
        if by < timedelta():
            raise ValueError("time passes forward; use step_wall to set the wall clock back")
        with self._lock:
            self._wall += microseconds(by)
            self._boot += microseconds(by)

    def step_wall(self, by: timedelta) -> None:
        """Set the wall clock, forward or back, as an operator or NTP does; no time passes."""
        with self._lock:
            self._wall += microseconds(by)
