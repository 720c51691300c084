"""Jobs and pings that an executor was given and has no longer.

They distinguish a frame that comes too late from one that is made up.
"""

from array import array
from collections import deque
from collections.abc import Collection

from limpet.worker.wire.frames import LANE

# A thread may send a frame just after the outcome of its job, but not thousands of jobs later.
_MOST_REMEMBERED = 4_096
_MOST_PINGS = 64
_LONGEST_OF_LANE_US, _LONGEST_OF_LOOP_US = 30_000_000, 10_000_000
# After a pause of this length, the time that a frame takes is counted anew.
_FRAME_PAUSE_US = 5_000_000


class GivenJobs:
    """The jobs that an executor was given: how many, and those that it no longer has.

    `count`: the jobs that it was given, without those that were taken back.

    Only the hash of a job that ended is kept: keeping ids and tokens cost a twentieth of the
    processor time of emptying a queue. A search among thousands of hashes takes long as well, and a
    dishonest executor causes one with every frame. So the set to search in is made when it is first
    needed, and kept until another job ends.
    """

    __slots__ = ("_known", "_older", "_recent", "count")

    def __init__(self) -> None:
        self.count = 0
        self._recent = array("q")
        self._older = array("q")
        self._known: frozenset[int] | None = None

    def let_go(self, jobs: Collection[str]) -> None:
        """The executor no longer has these jobs."""
        if not jobs:
            return
        self._recent.extend(map(hash, jobs))
        self._known = None
        if len(self._recent) > _MOST_REMEMBERED:
            self._older, self._recent = self._recent, array("q")

    def had(self, job: str) -> bool:
        """Whether the executor had an attempt of that job that is over."""
        if self._known is None:
            self._known = frozenset((*self._recent, *self._older))
        return hash(job) in self._known


class Arrival:
    """How long the last frame of an executor has been arriving."""

    __slots__ = ("_began", "_is_lane", "_last")

    def __init__(self, kind: str) -> None:
        self._is_lane = kind == LANE
        self._began: int | None = None
        self._last = 0

    def received(self, moment: int, *, has_part: bool) -> None:
        """Data came; `has_part`: it ended within a frame."""
        if not has_part:
            self._began = None
        elif self._began is None or moment - self._last > _FRAME_PAUSE_US:
            self._began = moment
        self._last = moment

    def takes_too_long(self, moment: int) -> bool:
        """Whether the frame takes longer than any honest frame would.

        A lane writes a frame at once. A loop that is blocked cannot finish writing a frame, so for
        a loop only the time until its last write counts.
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
        """Remember a ping that was sent; the numbers grow."""
        self._unanswered.append(number)
        if len(self._unanswered) > _MOST_PINGS:
            self._forgotten = self._unanswered.popleft()

    def answered(self, number: int) -> bool:
        """Whether this may answer a ping that was sent; earlier pings count as answered too."""
        if self._unanswered and number in self._unanswered:
            while self._unanswered.popleft() != number:
                pass
            return True
        # Many pings were sent since, so that this number may be one of the forgotten ones.
        return 0 < number <= self._forgotten
