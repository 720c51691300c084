"""Stops attempts on a host that runs short of memory: one at a time, the youngest first."""

from collections.abc import Callable, Mapping, Sequence

from limpet.domain.cause import Cause, HostPressed
from limpet.domain.permit import PermitRecord
from limpet.domain.reading import Reading
from limpet.gate.assess import Thresholds, memory_full, memory_pressure
from limpet.worker.wire.page import now

# A shortage may pass by itself; this many readings of it in a row do not.
_IN_A_ROW = 3
# After giving way this often, a job is stopped only if there is no other. Else a job that uses more
# memory than it declares would begin again and again, and always be the youngest.
_MOST_YIELDS = 3
# How long it takes until the memory of an attempt that gave way shows as free.
_REST_MICROSECONDS = 10_000_000


class Relief:
    """What one worker does about a shortage of memory on its host.

    All workers of a host see the same permits in the same order, and each worker stops only its own
    attempts, so one worker acts at a time. A worker sees that another worker's attempt gave way
    only by its permit being gone. So every worker looks from the first sign of a shortage on,
    before any worker acts, and waits whenever the youngest attempt changes. Else a worker that
    learns of the shortage a moment later would find its own attempt to be the youngest, and stop
    it too.
    """

    def __init__(
        self,
        session: str,
        server: str,
        tasks: frozenset[str],
        thresholds: Thresholds,
        stop: Callable[[str, Cause], None],
    ) -> None:
        """`tasks`: the tasks whose attempts may give way. `stop`: stops a job for a cause."""
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

    def add(self, reading: Reading) -> None:
        """Take a new reading into account."""
        full = memory_full(reading, self._thresholds)
        self._reason = full or memory_pressure(reading, self._thresholds)
        self._in_a_row = self._in_a_row + 1 if self._reason else 0
        self._news = True

    def may_go(self, permits: Sequence[PermitRecord]) -> list[str]:
        """The jobs with these permits that may give way, the oldest first."""
        return [
            permit.holder
            for permit in permits
            if permit.what in self._tasks and not permit.is_callers
        ]

    @property
    def must_look(self) -> bool:
        """Whether the host is short of memory, and a task of this worker may give way.

        True once for each reading: the last reading of a monitor that died stops no more attempts.
        """
        return bool(self._news and self._reason and self._tasks)

    def look(self, permits: Sequence[PermitRecord], yields: Mapping[str, int]) -> None:
        """Stop the youngest attempt of the host, if it is this worker's and the shortage lasts.

        `permits`: the oldest first. `yields`: how often each job that may give way has done so.
        """
        self._news = False
        moment = now()
        if moment - self._pressed_at > _REST_MICROSECONDS:
            self._youngest = None  # an attempt that ended meanwhile did so for other reasons
        self._pressed_at = moment
        giving = self.may_go(permits)
        holder = next(
            (job for job in reversed(giving) if yields.get(job, 0) < _MOST_YIELDS),
            giving[-1] if giving else None,
        )
        session = next((permit.session for permit in permits if permit.holder == holder), None)
        if self._youngest not in (None, holder):
            self._wait_until = moment + _REST_MICROSECONDS
        self._youngest = holder
        # A job that is alone and runs short of memory would do so again, wherever it began anew.
        if holder is None or session != self._session or len(permits) == 1:
            return
        if moment < self._wait_until or self._in_a_row < _IN_A_ROW:
            return
        self._wait_until = moment + _REST_MICROSECONDS
        self._stop(holder, HostPressed(self._server, self._reason))
