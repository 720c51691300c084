"""How much CPU a host uses, against what it may."""

from typing import NamedTuple

from limpet.host.capacity import Bounds
from limpet.host.cgroup import CpuGroup, Throttling
from limpet.host.proc import HostCpu


class Cpu(NamedTuple):
    """CPU since the last look in percent, 100 for a core, or None and the reason.

    `throttled`: the share in percent of the periods of the limit in which it held work up.
    """

    raw: float | None
    throttled: float | None
    note: str


class _Sample(NamedTuple):
    at: int
    used: int
    throttling: Throttling


class CpuMeter:
    """Compares the counters of the groups that bound the CPU, or of the machine, with the last."""

    def __init__(self, machine: HostCpu) -> None:
        self._machine = machine
        self._before: dict[CpuGroup, _Sample] = {}

    def measure(self, within: Bounds, now: int) -> Cpu:
        """What was used since the last call; `now` is boot time in microseconds."""
        if not within.cpu_groups:
            share = self._machine.busy_share()
            if share is None:
                return Cpu(None, None, "CPU not known: /proc/stat does not tell yet")
            return Cpu(share * within.cores * 100, None, "")
        # What the tightest leaves is room only where the groups above it, which others use too,
        # leave as much.
        left: list[float] = []
        throttled: list[float] = []
        unread = ""
        for group, limit in within.cpu_groups:
            used, throttling = group.used()
            before = self._before.pop(group, None)
            if used is None:
                unread = f"CPU not known: {group.group.name} does not tell what it uses"
                continue
            self._before[group] = _Sample(now, used, throttling)
            if before is not None and now > before.at:
                left.append(limit - (used - before.used) / (now - before.at))
                periods = throttling.periods - before.throttling.periods
                if periods > 0:
                    held_up = throttling.throttled - before.throttling.throttled
                    throttled.append(min(100.0, max(0.0, 100 * held_up / periods)))
        if not left:
            return Cpu(None, None, unread or "CPU not known yet")
        raw = (within.cores - min(left)) * 100
        return Cpu(raw, round(max(throttled), 1) if throttled else None, unread)

    def close(self) -> None:
        """Let go of the file."""
        self._machine.close()
