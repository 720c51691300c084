"""Tells what the holders of permits use from what all others do.

What a holder has declared is counted by the store, from the moment it is admitted to the moment it
is gone. Were its use counted as measured too, it would count twice; and since an average falls
slowly, what has ended would keep the next one off for a while. So what is measured of the holders,
up to what they have declared, is taken out of what is measured of the host.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from limpet.domain.load import USUAL_SMOOTHING, Load, Smoothing, loaded
from limpet.domain.permit import Permit
from limpet.domain.reading import Reading, Use
from limpet.domain.weight import Weight


class Holders:
    """For one monitor, which tells it of each reading."""

    def __init__(self, smoothing: Smoothing = USUAL_SMOOTHING) -> None:
        self._smoothing = smoothing
        self._others: Load | None = None
        self._before: dict[str, Permit] = {}

    def apart(
        self, reading: Reading, uses: Mapping[str, Use], permits: Sequence[Permit]
    ) -> Reading:
        """The reading with what belongs to others, where all the holders can be seen.

        `uses`: by session, measured with the reading. `permits`: those of the host right after it.
        """
        before, now = self._before, {each.holder: each for each in permits}
        self._before = now
        if reading.cpu_raw is None:
            return reading
        # Over the whole second: with those that have ended in it. A heavy one has the whole host.
        cores = _by_session(
            {**before, **now}, lambda weight: reading.cores if weight.heavy else weight.cpu
        )
        held = sum(min(uses[each].cpu, 100 * most) for each, most in cores.items() if each in uses)
        raw = max(0.0, reading.cpu_raw - held)
        self._others = loaded(self._others, raw, reading.cores, self._smoothing)
        # What a command begins with its permit shows in the next reading only.
        asked = {each.session for holder, each in now.items() if holder in before}
        if not asked <= uses.keys():
            return reading
        memory = _by_session(now, lambda weight: weight.memory)
        return replace(
            reading,
            cpu_others=round(self._others.effective, 2),
            memory_held=sum(
                min(uses[each].memory, int(most)) for each, most in memory.items() if each in uses
            ),
        )


def _by_session(
    permits: Mapping[str, Permit], amount: Callable[[Weight], float]
) -> dict[str, float]:
    """What each session has declared, added up."""
    found: dict[str, float] = {}
    for each in permits.values():
        found[each.session] = found.get(each.session, 0) + amount(each.weight)
    return found
