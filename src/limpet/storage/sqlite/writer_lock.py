"""A fair lock among the processes that write to one file, with priority for renewals.

SQLite's own waiting sleeps for random times: with four writers, one waited almost three seconds,
and a renewal that waits so long loses its lease. Here a writer goes through three file locks:

    next ──► urgent ──► turn

An ordinary writer takes `next`, then `urgent`, then `turn`, and releases each when it has the one
after. So at any time one process writes, one is certain to be the next, and one ordinary writer
waits behind that one; a process that has just written starts again at the back. A renewal skips
`next`, so it competes with at most one ordinary writer, however many there are. The kernel frees
the locks of a process that dies.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from limpet.domain.errors import StoreUnavailable
from limpet.storage.sqlite.failures import translate_os_error, why_not
from limpet.storage.sqlite.rights import make_folder, open_beside

_NEXT, _URGENT, _TURN = "next", "urgent", "turn"


class WriterLock:
    """The writer lock of one database file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: dict[str, int] = {}

    @contextmanager
    def take(self, *, urgent: bool) -> Iterator[None]:
        """Hold the lock; blocks until it is free."""
        with self._steps(urgent, fcntl.LOCK_EX):
            yield

    @contextmanager
    def take_if_free(self, *, urgent: bool) -> Iterator[bool]:
        """Hold the lock if nobody has it or waits for it; yields whether it is held."""
        with ExitStack() as held:
            try:
                held.enter_context(self._steps(urgent, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                free = False
            else:
                free = True
            yield free

    @contextmanager
    def _steps(self, urgent: bool, how: int) -> Iterator[None]:
        self._open()
        held: list[str] = []
        try:
            for step in (_URGENT, _TURN) if urgent else (_NEXT, _URGENT, _TURN):
                fcntl.flock(self._files[step], how)
                held.append(step)
                if len(held) > 1:
                    fcntl.flock(self._files[held.pop(0)], fcntl.LOCK_UN)
            yield
        finally:
            for step in held:
                if step in self._files:
                    fcntl.flock(self._files[step], fcntl.LOCK_UN)

    def _open(self) -> None:
        if self._files:
            return
        if os.path.isdir(self._path):
            raise StoreUnavailable(f"{self._path} cannot be opened: {why_not(self._path, '')}")
        try:
            make_folder(self._path)
            for name in (_NEXT, _URGENT, _TURN):
                self._files[name] = open_beside(self._path, name, os.O_RDWR)
        except OSError as error:
            self.close()
            raise translate_os_error(error, self._path) from error

    def close(self) -> None:
        """Close the files. In a forked child this leaves the parent's locks as they are."""
        files, self._files = self._files, {}
        for descriptor in files.values():
            os.close(descriptor)
