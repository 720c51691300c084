"""Checks the store's clock against this machine's boot clock, which nobody can set."""

from limpet.storage.contract.answers import Outlook

# Less than the margin by which a worker ends its jobs before its lease does.
_TOLERANCE_US = 250_000


class ClockWatch:
    """Compares the store's clock with this machine's; times are microseconds.

    Between two readings the store's clock may be set, or another machine may answer in its place.
    Leases that were given by the old clock cannot be judged by the new one.
    """

    def __init__(self) -> None:
        self._clock: str | None = None
        # The store's time minus ours, as a range, because an answer takes time.
        self._least = self._most = 0

    def is_steady(self, view: Outlook, sent_at: int, answered_at: int) -> bool:
        """Take a reading; False if it is the first, or does not continue the last one.

        `sent_at`, `answered_at`: when it was requested and answered, by our own clock.
        """
        least, most = view.now - answered_at, view.now - sent_at
        same = view.clock == self._clock
        near = least <= self._most + _TOLERANCE_US and most >= self._least - _TOLERANCE_US
        self._clock, self._least, self._most = view.clock, least, most
        return same and near

    def at(self, moment: int) -> int:
        """The least that the store's clock showed at a moment of ours, if nobody has set it."""
        return moment + self._least
