"""One process of a host is its monitor, and no file is left of stores that nobody serves."""

import os
from pathlib import Path

import pytest

from limpet.gate.monitor_lock import MonitorLock
from limpet.host import locks

LONG_AGO = 1_000_000


@pytest.fixture(autouse=True)
def folder(run_folder: Path) -> Path:
    return run_folder


def test_one_at_a_time_has_the_post_and_the_next_when_that_is_gone() -> None:
    first, second = MonitorLock("web-2"), MonitorLock("web-2")
    assert first.is_ours()
    assert not second.is_ours()
    assert first.is_ours()
    first.close()
    assert second.is_ours()
    second.close()


def test_other_name_is_another_post() -> None:
    first, second = MonitorLock("web-2"), MonitorLock("web-3")
    assert first.is_ours()
    assert second.is_ours()
    first.close()
    second.close()


def test_file_that_nobody_has_locked_for_long_is_removed(folder: Path) -> None:
    used, left, new = MonitorLock("used"), MonitorLock("left"), MonitorLock("new")
    for each in (used, left, new):
        assert each.is_ours()
    left.close()
    new.close()
    for name in ("used", "left"):
        os.utime(folder / f"{name}.monitor", (LONG_AGO, LONG_AGO))
    locks.take("session").let_go()
    assert {each.name for each in folder.glob("*.monitor")} == {"used.monitor", "new.monitor"}
    used.close()


def test_lock_of_a_file_that_was_removed_is_not_the_post(folder: Path) -> None:
    """It was free, old, and removed; another worker has made it anew, and is the monitor."""
    first, second, third = MonitorLock("web-2"), MonitorLock("web-2"), MonitorLock("web-2")
    assert first.is_ours()
    assert not second.is_ours()
    first.close()
    (folder / "web-2.monitor").unlink()
    assert third.is_ours()
    assert not second.is_ours()
    third.close()
    assert second.is_ours()
    second.close()
