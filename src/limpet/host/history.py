"""What a host carried: each second of a quarter of an hour, each minute of a week."""

from array import array
from dataclasses import dataclass

from limpet.domain.reading import Reading

COLUMNS = ("cpu", "memory", "pressure")
"""CPU (effective) and memory in percent of all, and the pressure on memory: in tenths."""

UNKNOWN = -1
_SECOND_MICROSECONDS = 1_000_000
_SECONDS, _MINUTES = 15 * 60, 7 * 24 * 60
# A clock that was set back by more than so many steps is believed, and the past is dropped.
_BELIEVED = 60


@dataclass(frozen=True, slots=True)
class Span:
    """Values of equal steps from `start` (seconds since 1970) on, `UNKNOWN` where there is none."""

    start: int
    step: int
    columns: dict[str, list[int]]


class Ring:
    """The last `length` steps of `step` seconds; what is older makes place."""

    def __init__(self, step: int, length: int) -> None:
        self.step = step
        self._length = length
        self._columns = tuple(array("h", [UNKNOWN]) * length for _ in COLUMNS)
        self._first: int | None = None
        self._last = -1

    def put(self, slot: int, values: tuple[int, ...]) -> None:
        """Keep the values of a step; steps that were left out before it are unknown."""
        if self._first is not None and slot < self._last:
            if self._last - slot <= _BELIEVED:
                return
            self._first = None
        if self._first is None:
            self._first, self._last = slot, slot - 1
        for missing in range(max(self._last + 1, slot - self._length + 1), slot):
            self._write(missing, (UNKNOWN,) * len(COLUMNS))
        self._write(slot, values)
        self._last = slot
        self._first = max(self._first, slot - self._length + 1)

    def _write(self, slot: int, values: tuple[int, ...]) -> None:
        for column, value in zip(self._columns, values, strict=True):
            column[slot % self._length] = value

    def span(self, since: int = 0) -> Span:
        """What is kept, from the moment `since` (seconds since 1970) on."""
        if self._first is None:
            return Span(since, self.step, {name: [] for name in COLUMNS})
        begin = max(self._first, -(-since // self.step))
        slots = range(begin, self._last + 1)
        return Span(
            begin * self.step,
            self.step,
            {
                name: [column[slot % self._length] for slot in slots]
                for name, column in zip(COLUMNS, self._columns, strict=True)
            },
        )


class History:
    """Both, filled from readings."""

    def __init__(self) -> None:
        self.seconds = Ring(1, _SECONDS)
        self.minutes = Ring(60, _MINUTES)
        self._minute: int | None = None
        self._seen: list[tuple[int, ...]] = []

    def add(self, reading: Reading) -> bool:
        """Keep a reading; True when a minute is full and can be told.

        A minute has the mean of what was known of its seconds.
        """
        second = reading.at // _SECOND_MICROSECONDS
        values = _values(reading)
        self.seconds.put(second, values)
        full = self._minute is not None and second // 60 != self._minute
        if full and self._minute is not None:
            self.minutes.put(self._minute, tuple(map(_mean, zip(*self._seen, strict=True))))
            self._seen = []
        self._minute = second // 60
        self._seen.append(values)
        return full

    def resume(self, minutes: Span) -> None:
        """Go on from what another monitor of this host has told before."""
        for place, values in enumerate(
            zip(*(minutes.columns[name] for name in COLUMNS), strict=True)
        ):
            self.minutes.put(minutes.start // 60 + place, values)


def _values(reading: Reading) -> tuple[int, ...]:
    total, used = reading.memory_total, reading.memory_used
    memory = 100 * used / total if total and used is not None else None
    return tuple(map(_tenths, (reading.cpu_busy, memory, reading.pressure.memory)))


def _tenths(percent: float | None) -> int:
    return UNKNOWN if percent is None else round(min(max(percent, 0.0), 100.0) * 10)


def _mean(values: tuple[int, ...]) -> int:
    known = [value for value in values if value != UNKNOWN]
    return round(sum(known) / len(known)) if known else UNKNOWN
