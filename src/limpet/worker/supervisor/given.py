"""What an executor was given and has no longer: so that a late word is told from a made-up one."""

from array import array
from collections import deque
from collections.abc import Collection

from limpet.worker.wire.frames import LANE

# A thread's last words cross the outcome of its job; thousands of jobs later there are none.
_MOST_REMEMBERED = 4_096
_MOST_PINGS = 64
_LONGEST_OF_LANE_US, _LONGEST_OF_LOOP_US = 30_000_000, 10_000_000
# Whoever has been silent for that long begins anew.
_FRAME_PAUSE_US = 5_000_000


class GivenJobs:
    """The jobs that an executor was given: how many, and those that it has not any more.

    `count`: all that it was given and that were not taken back. Of those that ended only the hash
    is kept: to keep each id, and its token, cost a drain a twentieth of its processor time. To look
    for one among thousands takes long, too, and who is not honest asks again and again: what is
    looked in is made when somebody asks, and kept until another job ends.
    """

    __slots__ = ("_known", "_older", "_recent", "count")

    def __init__(self) -> None:
        self.count = 0
        self._recent = array("q")
        self._older = array("q")
        self._known: frozenset[int] | None = None

    def let_go(self, jobs: Collection[str]) -> None:
        """The executor has these jobs no longer."""
        if not jobs:
            return
        self._recent.extend(map(hash, jobs))
        self._known = None
        if len(self._recent) > _MOST_REMEMBERED:
            self._older, self._recent = self._recent, array("q")

    def had(self, job: str) -> bool:
        """Whether it had any attempt of that job."""
        if self._known is None:
            self._known = frozenset((*self._recent, *self._older))
        return hash(job) in self._known


class Arrival:
    """How long the last frame of an executor has been coming."""

    __slots__ = ("_began", "_is_lane", "_last")

    def __init__(self, kind: str) -> None:
        self._is_lane = kind == LANE
        self._began: int | None = None
        self._last = 0

    def heard(self, moment: int, *, has_part: bool) -> None:
        """Something came; `has_part`: and with it a part of a frame whose end has not."""
        if not has_part:
            self._began = None
        elif self._began is None or moment - self._last > _FRAME_PAUSE_US:
            self._began = moment
        self._last = moment

    def takes_too_long(self, moment: int) -> bool:
        """Whether no honest frame takes as long. A lane writes a frame at once. What blocks a loop
        blocks its frame too, so there only the time counts in which it goes on writing.
        """
        if self._began is None:
            return False
        if self._is_lane:
            return moment - self._began > _LONGEST_OF_LANE_US
        return self._last - self._began > _LONGEST_OF_LOOP_US


class Pings:
    """The pings that an executor has not answered."""

    __slots__ = ("_forgotten", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: deque[int] = deque()
        self._forgotten = 0

    def sent(self, number: int) -> None:
        """Remember a ping; numbers grow."""
        self._unanswered.append(number)
        if len(self._unanswered) > _MOST_PINGS:
            self._forgotten = self._unanswered.popleft()

    def answered(self, number: int) -> bool:
        """Whether that may be the answer to a ping; those before it are answered too."""
        if self._unanswered and number in self._unanswered:
            while self._unanswered.popleft() != number:
                pass
            return True
        # So many have been sent since that nobody knows its number any more.
        return 0 < number <= self._forgotten
