"""Clocks of servers that a test can set: libfaketime, with a file that says by how much."""

import functools
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from servers.process import NoServer


@functools.cache
def library() -> Path:
    """The library that is loaded into a server; raises `NoServer`."""
    spec = importlib.util.find_spec("libfaketime")
    places = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    for place in [*places, Path("/usr/lib")]:
        found = next(iter(sorted(place.rglob("libfaketime.so.1"))), None)
        if found is not None:
            return found
    raise NoServer("no libfaketime: neither the wheel nor the package of the system is installed.")


class FakeTime:
    """The wall clock of one server; its other clocks go on as they are."""

    def __init__(self) -> None:
        # In a place that the server's user may read, whoever that is.
        self._folder = Path(tempfile.mkdtemp(prefix="limpet-faketime-"))
        self._folder.chmod(0o755)
        self._file = self._folder / "offset"
        self._library = self._folder / "libfaketime.so.1"
        shutil.copy(library(), self._library)
        self._library.chmod(0o755)
        self.set(0)

    def set(self, seconds: float) -> None:
        """Let the clock be so far ahead of the machine's, from this moment on."""
        fresh = self._folder / "fresh"
        fresh.write_text(f"{seconds:+.3f}")
        fresh.chmod(0o644)
        os.replace(fresh, self._file)

    @property
    def environment(self) -> dict[str, str]:
        """What the server is started with."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
