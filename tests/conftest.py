"""Judges the whole run: every backend passed the same tests, and no test was left out.

Where several processes run the tests, the files of the folders that take long are mixed, so that
tests that want the same of the machine do not meet, and those of the others fill up the end.
"""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from contract.driver import BACKENDS
from equality import Equality
from hypothesis import settings

from limpet.host import run_directory

pytest_plugins = ["pytester"]

# By a run that was measured; the model alone takes a third of its folder's time.
SHORT = {"architecture", "client", "unit"}
LONGEST = "test_model.py"


# On a machine that others use too, how long an example takes says nothing about the code.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory of the test's own, for root as for others."""
    monkeypatch.setattr(run_directory, "SYSTEM", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Path(run_directory.run_directory())


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts `make test &` so, and `nohup`; what the tests start would be deaf to them, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.pluginmanager.register(
        Equality(config, frozenset(BACKENDS), config.rootpath / "tests" / "contract")
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without root's rights there is no second user; with them such a test is never left out."""
    left_out = [item for item in items if item.get_closest_marker("as_root")]
    if left_out and os.geteuid() != 0:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):  # one process alone keeps the order that it was given
        places = _places({item.path: None for item in items})
        items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """Ten thousand tests stay to the end, and need not be looked through for garbage each time."""
    gc.collect()
    gc.freeze()


def _places(files: Iterable[Path]) -> dict[Path, tuple[bool, float]]:
    """Where each file stands in the order: those of each folder are spread evenly over the run."""
    folders: dict[Path, list[Path]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name != LONGEST):
        folders[file.parent].append(file)
    return {
        file: (folder.name in SHORT, number / len(within))
        for folder, within in folders.items()
        for number, file in enumerate(within)
    }
