"""What a lane has been given and does not start is taken back, whatever was there before."""

from types import SimpleNamespace
from typing import Any

from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.executor_link import Executor

_TICK = 50_000  # microseconds


class _Watched(Dispatcher):
    """As much of a dispatcher as looking for what is held up needs."""

    def __init__(self) -> None:
        self.taken_back = 0

    def _take_back(self, executor: Executor) -> None:
        self.taken_back += 1


def test_as_many_as_at_the_last_look_are_taken_back_too() -> None:
    """Eleven were waiting at the last tick, all began, and eleven new ones were handed over."""
    lane: Any = SimpleNamespace(
        ready=True, unstarted=[object()] * 11, holds={}, last_waiting=11, stuck_since=0,
        has_unread=False,
    )  # fmt: skip
    watched = _Watched()
    for moment in range(_TICK, 10 * _TICK, _TICK):
        watched._look_for_held_up(lane, moment)
    assert watched.taken_back >= 1
