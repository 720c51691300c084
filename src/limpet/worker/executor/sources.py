"""The user's code on disk, which a worker with --reload watches for changes."""

import contextlib
import hashlib
import os

_MOST_SOURCES = 5_000
_NOT_SOURCES = ("venv", "node_modules", "__pycache__", "site-packages")


class Sources:
    """The Python files below the current folder, and whether one has changed.

    `seen`: the digest of an earlier look, taken before the app was imported.
    """

    def __init__(self, seen: str = "") -> None:
        self._times = self._look()
        self.digest = seen or _digest(self._times)

    @staticmethod
    def _look() -> dict[str, int]:
        times: dict[str, int] = {}
        for folder, below, files in os.walk(os.getcwd()):
            below[:] = [name for name in below if name[0] != "." and name not in _NOT_SOURCES]
            for name in files:
                if name.endswith(".py") and len(times) < _MOST_SOURCES:
                    path = os.path.join(folder, name)
                    with contextlib.suppress(OSError):
                        times[path] = os.stat(path).st_mtime_ns
        return times

    def changed(self) -> str | None:
        """A file that is new, gone or changed since the first look; None if there is none."""
        times = self._look()
        if _digest(times) == self.digest:
            return None
        changed = {path for path, _ in times.items() ^ self._times.items()}
        return min(changed, default="the code")


def _digest(times: dict[str, int]) -> str:
    return hashlib.sha256(repr(sorted(times.items())).encode()).hexdigest()
