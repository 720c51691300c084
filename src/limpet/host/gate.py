"""Turns a reading into room: what may start on a host, in numbers that a store compares."""

from dataclasses import dataclass

from limpet.domain.errors import InvalidOption
from limpet.domain.reading import Reading
from limpet.domain.room import UNBOUNDED, Capacity, Room

POLL_MICROSECONDS = 1_000_000
# A monitor that has not spoken for ten polls is dead, and nothing is known of its host.
LIFETIME_MICROSECONDS = 10 * POLL_MICROSECONDS
# A job forks and imports first, and is in full in the sample after; two more bring the average up.
_SETTLED_MICROSECONDS = 4 * POLL_MICROSECONDS


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where a host takes on no more weighted work, in percent.

    `cpu`: of all cores; what is above it is for light jobs, the worker and the machine itself.
    `memory`: of all memory, what stays free. `pressure`: of the last ten seconds, those in which
    some work waited for memory.
    """

    cpu: float = 80.0
    memory: float = 10.0
    pressure: float = 10.0

    def __post_init__(self) -> None:
        for name, value, least in (
            ("cpu", self.cpu, 1),
            ("memory", self.memory, 0),
            ("pressure", self.pressure, 1),
        ):
            if not least <= value <= 100:  # and not a NaN
                raise InvalidOption(
                    f"Thresholds({name}={value!r}): write a percentage from {least} to 100."
                )


USUAL_THRESHOLDS = Thresholds()


def room(
    host: str,
    reading: Reading | None,
    capacity: Capacity,
    now: int,
    thresholds: Thresholds = USUAL_THRESHOLDS,
) -> Room:
    """What the host has room for; `now` is boot time, of the machine that made the reading.

    Where nothing is known, reservations alone decide: `capacity` is what may be reserved.
    """
    warnings = []
    age = 0 if reading is None else max(0, now - reading.at_boot)
    if reading is None or age >= LIFETIME_MICROSECONDS:
        reading = None
        warnings.append(f"{host} is not measured: only reservations count")
    else:
        capacity = Capacity(reading.cores, reading.memory_total)
    millicores = int(capacity.cores * 1000)
    headroom = 0 if capacity.memory is None else int(capacity.memory * thresholds.memory / 100)
    memory = UNBOUNDED if capacity.memory is None else capacity.memory - headroom
    idle, free = millicores, memory
    cpu_reason = memory_reason = ""
    if reading is not None:
        busy, what = _busiest(reading)
        if busy is None:
            warnings.append(f"CPU of {host} is not measured")
        else:
            idle = int(capacity.cores * 10 * (thresholds.cpu - busy))
            if idle <= 0:
                cpu_reason = f"waiting: {host} {what} {busy:.0f} % of {thresholds.cpu:g} %"
        if reading.memory_free is None or reading.memory_total is None:
            warnings.append(f"memory of {host} is not measured")
        else:
            free = reading.memory_free - headroom
            if free < 0:
                used = 100 - 100 * reading.memory_free / reading.memory_total
                most = 100 - thresholds.memory
                memory_reason = f"waiting: {host} memory {used:.0f} % of {most:g} %"
        pressure = reading.pressure.memory
        if pressure is not None and pressure >= thresholds.pressure:
            idle, free = 0, -1
            most = thresholds.pressure
            memory_reason = f"waiting: {host} memory pressure {pressure:.0f} % of {most:g} %"
            cpu_reason = memory_reason
    return Room(
        host=host,
        millicores=millicores,
        memory=memory,
        idle_millicores=idle,
        free_memory=free,
        unseen=age + _SETTLED_MICROSECONDS,
        cpu_reason=cpu_reason,
        memory_reason=memory_reason,
        warning="; ".join(warnings),
    )


def _busiest(reading: Reading) -> tuple[float | None, str]:
    """The CPU in percent of all, or the periods in which the limit held work up: then there was
    no room either, though the average over the second shows some.
    """
    busy, throttled = reading.cpu_busy, reading.throttled
    if throttled is not None and (busy is None or throttled > busy):
        return throttled, "CPU throttled"
    return busy, "CPU"
