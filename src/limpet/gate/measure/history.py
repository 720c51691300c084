"""Samples of a host's load for the store to keep: one for each second, and each minute's mean."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from limpet.domain.host import Sample, Span
from limpet.domain.reading import Reading

_SECOND_MICROSECONDS = 1_000_000
_MINUTE_MICROSECONDS = 60 * _SECOND_MICROSECONDS

Values: TypeAlias = dict[str, float | None]
"""CPU (effective) and memory in percent of all, and memory pressure in percent; None: unknown."""


class History:
    """Makes samples of readings; a minute shared by two monitors has what the second one saw."""

    def __init__(self) -> None:
        self._minute: int | None = None
        self._seen: list[Values] = []

    def add(self, reading: Reading) -> list[Sample]:
        """The samples that a reading makes: its second, and the minute before once that is over."""
        values = _values(reading)
        samples = [_sample(Span.SECOND, reading.at, _SECOND_MICROSECONDS, values)]
        minute = reading.at // _MINUTE_MICROSECONDS
        if self._minute is not None and minute != self._minute:
            at = self._minute * _MINUTE_MICROSECONDS
            samples.append(_sample(Span.MINUTE, at, _MINUTE_MICROSECONDS, _means(self._seen)))
            self._seen = []
        self._minute = minute
        self._seen.append(values)
        return samples


def _sample(span: Span, at: int, step_us: int, values: Values) -> Sample:
    return Sample(span, at - at % step_us, msgspec.json.encode(values).decode())


def _values(reading: Reading) -> Values:
    total, used = reading.memory_total, reading.memory_used
    return {
        "cpu": _tenths(reading.cpu_busy),
        "memory": _tenths(100 * used / total if total and used is not None else None),
        "pressure": _tenths(reading.pressure.memory),
    }


def _tenths(percent: float | None) -> float | None:
    return None if percent is None else round(min(max(percent, 0.0), 100.0), 1)


def _means(seen: Sequence[Values]) -> Values:
    """The mean of each value, over the seconds in which it was known."""
    known = {
        name: [value for second in seen if (value := second[name]) is not None] for name in seen[0]
    }
    return {
        name: _tenths(sum(values) / len(values)) if values else None
        for name, values in known.items()
    }
