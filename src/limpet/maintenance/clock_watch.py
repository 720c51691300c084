"""What a sweeper knows of the store's clock, by its own, which nobody can step."""

from limpet.storage.contract.answers import Outlook

# Less than the margin by which a worker ends its jobs before its lease does.
_TOLERANCE = 250_000


class ClockWatch:
    """Compares the store's clock with this machine's; times are microseconds.

    Between two readings the store's clock may be set, or another machine may answer in its place.
    What it shows then says nothing about leases that were given by the old one.
    """

    def __init__(self) -> None:
        self._clock: str | None = None
        # The store's time less ours: at least, at most, because an answer takes its time.
        self._least = self._most = 0

    def is_steady(self, view: Outlook, asked: int, answered: int) -> bool:
        """Take a reading that was asked for and answered at these moments of our own clock.

        False if it is the first, or does not go on where the last one left off.
        """
        least, most = view.now - answered, view.now - asked
        same = view.clock == self._clock
        near = least <= self._most + _TOLERANCE and most >= self._least - _TOLERANCE
        self._clock, self._least, self._most = view.clock, least, most
        return same and near

    def at(self, moment: int) -> int:
        """What the store's clock certainly showed at a moment of ours, had nobody set it."""
        return moment + self._least
