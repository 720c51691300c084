"""What a lane has been given and does not start is taken back, whatever was there before."""

from types import SimpleNamespace
from typing import Any

from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.unstarted import Unstarted

_TICK = 50_000  # microseconds


class _Watched(Unstarted):
    """As much of it as looking for what is held up needs."""

    def __init__(self) -> None:
        self.taken_back = 0

    def take_back(self, executor: Executor) -> None:
        self.taken_back += 1


def test_as_many_as_at_the_last_look_are_taken_back_too() -> None:
    """Eleven were waiting at the last tick, all began, and eleven new ones were handed over."""
    lane: Any = SimpleNamespace(
        ready=True, unstarted=[object()] * 11, holds={}, last_waiting=11, stuck_since=0,
        has_unread=False,
    )  # fmt: skip
    watched = _Watched()
    for moment in range(_TICK, 10 * _TICK, _TICK):
        watched.look(lane, moment)
    assert watched.taken_back >= 1
