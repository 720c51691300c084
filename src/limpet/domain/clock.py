"""Time as a parameter: wall time for schedules, boot time for leases."""

import time
from typing import Protocol

MICROSECONDS_PER_SECOND = 1_000_000

# BOOTTIME goes on while the machine sleeps; on macOS MONOTONIC does.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where the time comes from; both readings are whole microseconds."""

    def wall(self) -> int:
        """Microseconds since 1970; an operator or NTP may step it."""
        ...

    def boot(self) -> int:
        """Microseconds since this machine started, sleep included; never stepped."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def wall(self) -> int:
        return time.time_ns() // 1000

    def boot(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1000
