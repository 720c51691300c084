"""Takes work off a host that runs short of memory: one attempt at a time, the youngest first."""

from collections.abc import Callable, Mapping, Sequence

from limpet.domain.cause import Cause, HostPressed
from limpet.domain.permit import PermitRecord
from limpet.domain.reading import Reading
from limpet.gate.assess import Thresholds, memory_full, memory_pressure
from limpet.worker.wire.page import now

# A shortage may pass by itself, but three readings of it in a row are no accident.
_IN_A_ROW = 3
# So often a job gives way before others are asked first: one that takes more than it has declared
# would begin again and again, and always be the youngest.
_TIMES = 3
# So long it takes until the memory of an attempt that gave way shows as free.
_REST_MICROSECONDS = 10_000_000


class Relief:
    """What one worker does for its host.

    All workers of a host see the same permits in the same order, and each stops only what it holds
    itself, so one of them acts at a time. That another one's attempt has given way shows only in
    its being gone, so everybody looks from the first sign on, before anyone acts, and waits
    whenever the youngest changes. Else a worker that heard of the shortage a moment later would
    find its own attempt to be the youngest, and stop that too.
    """

    def __init__(
        self,
        session: str,
        server: str,
        tasks: frozenset[str],
        thresholds: Thresholds,
        stop: Callable[[str, Cause], None],
    ) -> None:
        """`tasks`: those whose attempts give way. `stop`: stops a job for that cause."""
        self._session = session
        self._server = server
        self._tasks = tasks
        self._thresholds = thresholds
        self._stop = stop
        self._in_a_row = 0
        self._reason = ""
        self._news = False
        self._pressed_at = 0
        self._youngest: str | None = None
        self._wait_until = 0

    def heard(self, reading: Reading) -> None:
        """Take a new reading into account."""
        full = memory_full(reading, self._thresholds)
        self._reason = full or memory_pressure(reading, self._thresholds)
        self._in_a_row = self._in_a_row + 1 if self._reason else 0
        self._news = True

    def may_go(self, permits: Sequence[PermitRecord]) -> list[str]:
        """The jobs among these that would give way, the oldest first."""
        return [each.holder for each in permits if each.what in self._tasks and not each.is_callers]

    @property
    def must_look(self) -> bool:
        """Whether the host is short of memory, and a task here would give way.

        Once for each reading: after a monitor that died nothing is stopped for what it saw last.
        """
        return bool(self._news and self._reason and self._tasks)

    def look(self, permits: Sequence[PermitRecord], gone: Mapping[str, int]) -> None:
        """Stop the youngest attempt of the host, if it is ours and the shortage lasts.

        `permits`: the oldest first. `gone`: how often each job that may go has given way already.
        """
        self._news = False
        moment = now()
        if moment - self._pressed_at > _REST_MICROSECONDS:
            self._youngest = None  # what went meanwhile went for reasons of its own
        self._pressed_at = moment
        giving = self.may_go(permits)
        holder = next(
            (job for job in reversed(giving) if gone.get(job, 0) < _TIMES),
            giving[-1] if giving else None,
        )
        session = next((each.session for each in permits if each.holder == holder), None)
        if self._youngest not in (None, holder):
            self._wait_until = moment + _REST_MICROSECONDS
        self._youngest = holder
        # Alone it would be pressed again at once, wherever it began anew.
        if holder is None or session != self._session or len(permits) == 1:
            return
        if moment < self._wait_until or self._in_a_row < _IN_A_ROW:
            return
        self._wait_until = moment + _REST_MICROSECONDS
        self._stop(holder, HostPressed(self._server, self._reason))
