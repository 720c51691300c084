"""Under pressure the youngest attempt that may gives way, one at a time for the whole host."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from limpet.domain.cause import Cause, HostPressed, WorkerKilled
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.permit import PermitRecord
from limpet.domain.reading import Pressure, Reading
from limpet.domain.transition import Release
from limpet.domain.weight import Weight
from limpet.gate.assess import Thresholds
from limpet.worker.supervisor import pressure_relief as relief_module
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.supervisor.pressure_relief import Relief
from limpet.worker.supervisor.settling import after_death

SECOND = 1_000_000
CALM = Reading(
    host="web-2", at=0, at_boot=0, cores=2.0, source="host", memory_total=100, memory_free=50,
    pressure=Pressure(memory=0.0),
)  # fmt: skip
PRESSED = replace(CALM, pressure=Pressure(memory=25.0))
FULL = replace(CALM, memory_free=5)


class Host:
    """Workers that see the same permits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *sessions: str) -> None:
        self.now = 1_000 * SECOND
        monkeypatch.setattr(relief_module, "now", lambda: self.now)
        self.stopped: list[tuple[str, str]] = []
        self.gone_at_once = False
        self.causes: list[Cause] = []
        self.permits: list[PermitRecord] = []
        self.workers = [self._worker(each) for each in sessions]

    def _worker(self, session: str) -> Relief:
        def stop(job: str, cause: Cause) -> None:
            self.stopped.append((session, job))
            self.causes.append(cause)

        return Relief(session, "web-2", frozenset({"render"}), Thresholds(), stop)

    def admit(self, *jobs: tuple[str, str], what: str = "render") -> None:
        for session, job in jobs:
            self.permits.append(PermitRecord("web-2", job, session, what, Weight(1), self.now))

    def second(self, reading: Reading, times: int = 1) -> None:
        for _ in range(times):
            self.now += SECOND
            for worker in self.workers:
                worker.add(reading)
                if worker.must_look:
                    worker.look(self.permits, Counter(job for _, job in self.stopped))
                if self.gone_at_once and self.stopped:
                    self.gone(self.stopped[-1][1])

    def gone(self, job: str) -> None:
        self.permits = [each for each in self.permits if each.holder != job]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Host(monkeypatch, "s1", "s2")
    found.admit(("s1", "a"), ("s2", "b"))
    return found


def test_full_memory_stops_the_youngest_and_only_its_holder_acts(host: Host) -> None:
    host.admit(("s1", "light"), what="other")
    host.second(CALM)
    host.second(FULL, 3)
    assert host.stopped == [("s2", "b")]
    assert host.causes == [HostPressed("web-2", "memory 95 % of 90 %")]
    assert not host.causes[0].charged


def test_shortage_counts_when_it_lasts_for_three_readings(host: Host) -> None:
    host.second(PRESSED, 2)
    host.second(CALM)
    host.second(PRESSED, 2)
    assert host.stopped == []
    host.second(PRESSED)
    assert host.stopped == [("s2", "b")]
    assert "memory pressure 25 % of 10 %" in str(host.causes[0])


def test_next_one_goes_ten_seconds_after_the_first_is_gone(host: Host) -> None:
    host.admit(("s1", "stays"), what="other")
    host.second(FULL, 6)
    host.gone("b")
    host.second(FULL, 10)
    assert host.stopped == [("s2", "b")]
    host.second(FULL)
    assert host.stopped == [("s2", "b"), ("s1", "a")]


def test_pressure_that_pauses_for_a_moment_does_not_shorten_the_wait(host: Host) -> None:
    host.second(FULL, 3)
    host.second(CALM, 2)
    host.gone("b")
    host.second(FULL, 10)
    assert host.stopped == [("s2", "b")]


def test_worker_that_looks_when_the_first_is_gone_already_waits_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(monkeypatch, "s2", "s1")
    host.admit(("s1", "a"), ("s2", "b"))
    host.admit(("s1", "stays"), what="other")
    host.gone_at_once = True
    host.second(FULL, 12)
    assert host.stopped == [("s2", "b")]
    host.second(FULL)
    assert host.stopped == [("s2", "b"), ("s1", "a")]


def test_nothing_is_stopped_again_for_a_reading_of_long_ago(host: Host) -> None:
    host.second(FULL, 2)
    worker = host.workers[1]
    worker.add(FULL)
    worker.look(host.permits, {})
    assert host.stopped == [("s2", "b")]
    assert not worker.must_look


def test_attempt_that_is_alone_on_its_host_goes_on(host: Host) -> None:
    """It would be pressed again as soon as it began anew, and so for ever."""
    host.gone("a")
    host.second(FULL, 20)
    assert host.stopped == []


def test_task_that_did_not_agree_never_gives_way(host: Host) -> None:
    host.permits.clear()
    host.admit(("s1", "a"), ("s2", "b"), what="other")
    host.second(FULL, 20)
    assert host.stopped == []


def test_attempt_that_would_not_stop_is_handed_back_uncharged_all_the_same() -> None:
    claimed = ClaimedJob(
        Lease("job", "s", 1), "render", "q", 1, 1, Counters(), False, False, 1, "{}", "{}", (), None
    )
    hold = Hold(claimed)
    hold.begun, hold.stop = True, HostPressed("web-2", "memory 95 % of 90 %")
    ended = after_death(hold, WorkerKilled(9, "executor"), alone=True, intended=True)
    assert ended == Release(hold.lease, hold.stop)


def test_job_that_gave_way_again_and_again_is_let_alone_while_another_may_go(host: Host) -> None:
    """It takes more than it says, so it begins again wherever its word has room."""
    for _ in range(4):
        before = len(host.stopped)
        host.second(FULL, 3)
        assert len(host.stopped) == before + 1
        session, job = host.stopped[-1]
        host.gone(job)
        host.second(CALM, 15)
        host.admit((session, job))
    assert [job for _, job in host.stopped] == ["b", "b", "b", "a"]


def test_caller_that_is_called_like_a_task_stops_nobody_from_giving_way(host: Host) -> None:
    host.permits.append(PermitRecord("web-2", "c", "c", "render", Weight(1), host.now))
    host.second(FULL, 3)
    assert host.stopped == [("s2", "b")]
