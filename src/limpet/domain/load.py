"""The load of a machine, smoothed: it rises fast and falls slowly, because a dip is not room."""

import math
from dataclasses import dataclass

from limpet.domain.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How much of the way to each new sample the average goes, upwards and downwards.

    By default two samples of a higher load bring the average 91 % of the way up, and 22 samples of
    a lower load bring it 90 % of the way down.
    """

    rise: float = 0.7
    fall: float = 0.1

    def __post_init__(self) -> None:
        for name, factor in (("rise", self.rise), ("fall", self.fall)):
            if not 0 < factor <= 1:  # and not a NaN
                raise InvalidOption(
                    f"Smoothing({name}={factor!r}): write a share above 0, up to 1."
                )
        if self.fall > self.rise:
            raise InvalidOption(
                f"Smoothing(rise={self.rise!r}, fall={self.fall!r}): the average must not fall "
                f"faster than it rises, because a dip is not room."
            )


USUAL_SMOOTHING = Smoothing()


@dataclass(frozen=True, slots=True)
class Load:
    """CPU in percent, 100 for each core: as measured last, and smoothed."""

    raw: float
    smoothed: float

    @property
    def effective(self) -> float:
        """The greater of the two; work is admitted by it."""
        return max(self.raw, self.smoothed)


def loaded(before: Load | None, raw: float, cores: float, smoothing: Smoothing) -> Load:
    """The load after one more sample; both values stay between 0 and 100 for each core."""
    most = 100.0 * cores
    raw = 0.0 if math.isnan(raw) else min(max(raw, 0.0), most)
    if before is None:
        return Load(raw, raw)
    was = before.smoothed
    factor = smoothing.rise if raw > was else smoothing.fall
    # Clamped between the two values, because a float may round beyond them; and to `most`, because
    # the CPU limit may have shrunk.
    between = min(max(was + factor * (raw - was), min(was, raw)), max(was, raw))
    return Load(raw, min(between, most))
