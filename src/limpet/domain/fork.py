"""Objects that start anew in a forked child: their locks, threads and counters are the parent's."""

import os
import weakref
from typing import Protocol


class StartsAnew(Protocol):
    """An object with locks, threads or counters that a child must not share."""

    def start_anew(self) -> None:
        """Drop what belongs to the parent; called in the child before anything else runs."""
        ...


_living: "weakref.WeakSet[StartsAnew]" = weakref.WeakSet()


def anew_in_child(shared: StartsAnew) -> None:
    """Call `start_anew` in every child that is forked while the object lives."""
    _living.add(shared)


def _after_fork_in_child() -> None:
    for shared in list(_living):
        shared.start_anew()


os.register_at_fork(after_in_child=_after_fork_in_child)
