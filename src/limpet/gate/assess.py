"""Turns a reading into room: what may begin on a host, in numbers that a store compares."""

from dataclasses import dataclass

from limpet.domain.assessment import UNBOUNDED, Assessment, Capacity
from limpet.domain.errors import InvalidOption
from limpet.domain.permit import Room
from limpet.domain.reading import Reading

POLL_MICROSECONDS = 1_000_000
# A monitor that has published nothing for ten polls is dead: its host counts as not measured.
LIFETIME_MICROSECONDS = 10 * POLL_MICROSECONDS
# A job forks and imports first; its full use shows in the next sample, and the average needs two
# more to reach it.
_SETTLED_MICROSECONDS = 4 * POLL_MICROSECONDS
# Older than any permit: where the use of permit holders is left out of what was measured.
_EVER_MICROSECONDS = 1 << 52


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Percentages at which a host takes on no more weighted work.

    `cpu`: of all cores; the rest is for light jobs, the worker and the machine itself. `memory`: of
    all memory; the rest is for the same. `pressure`: the share of the last ten seconds in which
    some work waited for memory. `io`: the share in which some work waited for a disk; it holds back
    heavy work only, which needs a calm host, while other work declares what it takes.

    There is no threshold for work that waits for a CPU: some does wherever there are more programs
    than cores, also on a host with room.
    """

    cpu: float = 80.0
    memory: float = 90.0
    pressure: float = 10.0
    io: float = 40.0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "pressure", "io"):
            value = getattr(self, name)
            if not 1 <= value <= 100:  # and not a NaN
                raise InvalidOption(
                    f"Thresholds({name}={value!r}): write a percentage from 1 to 100."
                )


USUAL_THRESHOLDS = Thresholds()


def assess(
    server: str,
    reading: Reading | None,
    capacity: Capacity,
    now: int,
    thresholds: Thresholds = USUAL_THRESHOLDS,
) -> Assessment:
    """What the host has room for; `now` is boot time of the machine that made the reading.

    Without a fresh reading, reservations alone decide: `capacity` is what may be reserved. Where
    the use of permit holders is known separately, free means what others leave, and every permit
    counts in addition with what it declares. Otherwise a permit counts with what it declares while
    it is young, and after that its use is part of what is measured.
    """
    age_us = 0 if reading is None else max(0, now - reading.at_boot)
    if reading is None or age_us >= LIFETIME_MICROSECONDS:
        warning = f"{server} is not measured: only reservations count"
        return Assessment(Room(server, *_whole(capacity, thresholds)), warning=warning)
    cpu, memory = _whole(Capacity(reading.cores, reading.memory_total), thresholds)
    free_cpu, cpu_reason = _free_cpu(server, reading, thresholds)
    free_memory, memory_reason = _free_memory(server, reading, thresholds)
    disk_reason = _disk_pressure(server, reading, thresholds)
    if memory_reason:
        # Whatever begins now would take the last of the memory.
        free_cpu, cpu_reason = 0, cpu_reason or memory_reason
    unknown = [
        f"{what} of {server} is not measured"
        for what, free in (("CPU", free_cpu), ("memory", free_memory))
        if free is None
    ]
    room = Room(
        server,
        cpu,
        memory,
        free_cpu,
        free_memory,
        calm=not (cpu_reason or memory_reason or disk_reason),
        unseen=age_us + _SETTLED_MICROSECONDS if reading.cpu_others is None else _EVER_MICROSECONDS,
    )
    return Assessment(room, cpu_reason, memory_reason, disk_reason, "; ".join(unknown))


def _whole(capacity: Capacity, thresholds: Thresholds) -> tuple[int, int]:
    """What all permits may take together: cores in thousandths, and bytes."""
    memory = capacity.memory
    kept = UNBOUNDED if memory is None else memory - _headroom(memory, thresholds)
    return round(capacity.cores * 1000), kept


def _headroom(memory: int, thresholds: Thresholds) -> int:
    return int(memory * (100 - thresholds.memory) / 100)


def _free_cpu(server: str, reading: Reading, thresholds: Thresholds) -> tuple[int | None, str]:
    busy, what = _busiest(reading)
    if busy is None or (reading.cpu_raw is None and busy < thresholds.cpu):
        return None, ""  # throttling alone, and little of it: how much CPU is used is not known
    free = int(reading.cores * 10 * (thresholds.cpu - busy))
    too_busy = f"waiting: {server} {what} {busy:.0f} % of {thresholds.cpu:g} %"
    return free, "" if free > 0 else too_busy


def _free_memory(server: str, reading: Reading, thresholds: Thresholds) -> tuple[int | None, str]:
    if pressure := memory_pressure(reading, thresholds):
        return -1, f"waiting: {server} {pressure}"
    if reading.memory_free is None or reading.memory_total is None:
        return None, ""
    full = memory_full(reading, thresholds)
    free = reading.memory_free - _headroom(reading.memory_total, thresholds)
    if full:
        return min(free, 0), f"waiting: {server} {full}"
    return free + (reading.memory_held or 0), ""


def _disk_pressure(server: str, reading: Reading, thresholds: Thresholds) -> str:
    pressure, most = reading.pressure.io, thresholds.io
    if pressure is None or pressure < most:
        return ""
    return f"waiting: {server} disk pressure {pressure:.0f} % of {most:g} %"


def memory_pressure(reading: Reading, thresholds: Thresholds) -> str:
    """The memory pressure in words; "" if it is below the threshold, or not known."""
    pressure, most = reading.pressure.memory, thresholds.pressure
    if pressure is None or pressure < most:
        return ""
    return f"memory pressure {pressure:.0f} % of {most:g} %"


def memory_full(reading: Reading, thresholds: Thresholds) -> str:
    """How full the memory is, in words; "" if it is below the threshold, or not known."""
    free, total = reading.memory_free, reading.memory_total
    if free is None or not total or free >= _headroom(total, thresholds):
        return ""
    return f"memory {100 - 100 * free / total:.0f} % of {thresholds.memory:g} %"


def _busiest(reading: Reading) -> tuple[float | None, str]:
    """The CPU in use (by others, where that is known) in percent of all cores, or the share of
    periods in which the limit held work up, whichever is more. While work is held up there is no
    room, though the average over the second may show some.
    """
    busy, throttled = reading.cpu_busy, reading.throttled
    if reading.cpu_others is not None:
        busy = reading.cpu_others / reading.cores
    if throttled is not None and (busy is None or throttled > busy):
        return throttled, "CPU throttled"
    return busy, "CPU"
