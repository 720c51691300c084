"""Measures how much CPU is in use, against what the host may use."""

from typing import NamedTuple

from limpet.gate.measure.capacity import Bounds
from limpet.gate.measure.cgroup import CpuGroup, Throttling
from limpet.gate.measure.proc import HostCpu


class Cpu(NamedTuple):
    """CPU since the last look in percent, 100 for a core; where `raw` is None, `note` tells why.

    `throttled`: the percentage of the limit's periods in which it held work up.
    """

    raw: float | None
    throttled: float | None
    note: str


class _Sample(NamedTuple):
    at: int
    used: int | None
    throttling: Throttling


class CpuMeter:
    """Compares the CPU counters of the bounding groups, or of the machine, with the last look."""

    def __init__(self, machine: HostCpu) -> None:
        self._machine = machine
        self._before: dict[CpuGroup, _Sample] = {}

    def measure(self, within: Bounds, now: int) -> Cpu:
        """What was used since the last call; `now` is boot time in microseconds."""
        if not within.cpu_groups:
            share = self._machine.busy_share()
            if share is None:
                return Cpu(None, None, "CPU not known: /proc/stat does not show it yet")
            return Cpu(share * within.cores * 100, None, "")
        # The tightest limit leaves room only where the groups above, which others use too, leave
        # as much: the least that any of them leaves counts.
        left: list[float] = []
        throttled: list[float] = []
        unread = ""
        for group, limit in within.cpu_groups:
            used, throttling = group.used()
            before = self._before.get(group)
            self._before[group] = _Sample(now, used, throttling)
            if used is None:
                # In version 1 CPU use may be counted in a hierarchy that has no such group.
                unread = f"CPU not known: {group.group.name} does not show what it uses"
            if before is None or now <= before.at:
                continue
            if used is not None and before.used is not None:
                left.append(limit - (used - before.used) / (now - before.at))
            periods = throttling.periods - before.throttling.periods
            if periods > 0:
                held_up = throttling.throttled - before.throttling.throttled
                throttled.append(min(100.0, max(0.0, 100 * held_up / periods)))
        most = round(max(throttled), 1) if throttled else None
        if not left:
            return Cpu(None, most, unread or "CPU not known yet")
        return Cpu((within.cores - min(left)) * 100, most, unread)

    def close(self) -> None:
        """Close the file."""
        self._machine.close()
