"""Forks: every open database closes its connections before a fork, and starts anew after it."""

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object whose state must not reach a child unchanged."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_opened: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_forking: list[Forkable] = []
# Two threads may fork at the same time; the second waits until the first has its child.
_one_fork = threading.Lock()


def add(opened: Forkable) -> None:
    """Call the object before and after each fork from now on."""
    _opened.add(opened)


def discard(closed: Forkable) -> None:
    """Stop calling the object."""
    _opened.discard(closed)


def _before_fork() -> None:
    _one_fork.acquire()
    _forking[:] = list(_opened)
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.after_fork_in_parent()
    _forking.clear()
    _one_fork.release()


def _after_fork_in_child() -> None:
    for database in _forking:
        database.after_fork_in_child()
    _forking.clear()
    _one_fork.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
