"""The scanner of the store: once in each period for all workers, and what it leaves is said."""

import logging
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from contract.driver import add

from limpet.domain.errors import InvalidOption
from limpet.maintenance.scanner import FSCK, Scanner
from limpet.maintenance.scheduler import Scheduler
from limpet.ops.schedules import trigger_schedule
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

AN_HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def store(url: str, clock: FakeClock) -> Store:
    made = open_store(url, clock)
    made.migrate()
    return made


def test_one_of_two_scanners_looks_in_each_period(store: Store, url: str, clock: FakeClock) -> None:
    scanners = [Scanner(store, url, clock) for _ in range(2)]
    assert [each.run() for each in scanners] == [False, False]
    for _ in range(3):
        clock.advance(AN_HOUR)
        assert [each.run() for each in scanners] == [True, False]
        assert [each.run() for each in scanners] == [False, False]
    # After a long time nobody makes up for what was missed.
    clock.advance(24 * AN_HOUR)
    assert [each.run() for each in scanners] == [True, False]
    assert [each.run() for each in scanners] == [False, False]


def test_what_is_broken_is_repaired_and_logged(
    store: Store, url: str, tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    add(store)
    scanner = Scanner(store, url, clock)
    scanner.run()
    with closing(apsw.Connection(f"{tmp_path}/jobs.db")) as raw:
        raw.execute("UPDATE limpet_gauge SET jobs = 7")
        raw.execute("UPDATE limpet_job SET orphans = -1")
    clock.advance(AN_HOUR)
    with caplog.at_level(logging.INFO, "limpet"):
        assert scanner.run()
    actions = [record.__dict__["action"] for record in caplog.records]
    assert actions == ["mended", "unmended"]
    assert "gauges_are_right" in caplog.text
    assert "counters_within_caps" in caplog.text
    assert [each.invariant for each in store.invariants()] == ["counters_within_caps"]


def test_a_scanner_that_is_paused_does_not_look(store: Store, url: str, clock: FakeClock) -> None:
    scanner = Scanner(store, url, clock)
    scanner.run()
    store.pause_schedule(FSCK)
    clock.advance(AN_HOUR)
    assert not scanner.run()


def test_its_schedule_is_listed_but_hands_in_no_job(
    store: Store, url: str, clock: FakeClock
) -> None:
    Scanner(store, url, clock).run()
    clock.advance(AN_HOUR)
    before = store.schedules()
    assert [each.id for each in before] == [FSCK]
    Scheduler(store, clock).run()
    assert store.schedules() == before
    with pytest.raises(InvalidOption, match="limpet fsck --repair"):
        trigger_schedule(store, FSCK, clock)
