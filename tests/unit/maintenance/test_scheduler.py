"""Ticks: when they come, what becomes of missed ones, and what a clock that is set does."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from limpet.domain.errors import InvalidOption
from limpet.domain.ids import derived_id, is_id
from limpet.domain.job import NewJob
from limpet.domain.schedule import CatchUp, Schedule, Timing
from limpet.maintenance.cron import last_until, next_after, timing_of
from limpet.maintenance.scheduler import Scheduler, Step, step_of
from limpet.storage.contract.answers import Ticked
from limpet.testing.clock import FakeClock

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def wall(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def told(at: int, tz: str) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).astimezone(ZoneInfo(tz)).isoformat()


def runs(cron: str, tz: str, after: str, number: int) -> list[str]:
    """The next ticks of a cron line, in its own time."""
    timing, at = timing_of(cron=cron, tz=tz), wall(after)
    found = []
    for _ in range(number):
        following = next_after(timing, at)
        assert following is not None
        at = following
        found.append(told(at, tz))
    return found


def a_schedule(**fields: Any) -> Schedule:
    job = NewJob("", "task", "{}")
    return Schedule(
        **{"id": "s", "job": job, "timing": Timing(every=MINUTE), "next_at": 100 * MINUTE, **fields}
    )


def ticks(schedule: Schedule, step: Step) -> list[int]:
    return [schedule.tick_of(job) for job in step.jobs]


def due(schedule: Schedule, now: int) -> Step:
    step = step_of(schedule, now)
    assert step is not None
    return step


# -- daylight saving


@pytest.mark.parametrize(
    ("cron", "tz", "after", "expected"),
    [
        (  # 02:30 does not exist on that day
            "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            "30 2 * * *", "America/New_York", "2026-03-07T12:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
        ),
        (  # 02:30 exists twice
            "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        (  # several times that do not exist are one
            "*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"],
        ),
        (
            "*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:00:00+01:00"],
        ),
        (  # also where hours are named by a step
            "30 */2 * * *", "Europe/Berlin", "2026-10-25T00:31+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T04:30:00+01:00"],
        ),
        (  # one that names no hour goes by the time that passes
            "30 * * * *", "Europe/Berlin", "2026-10-25T01:31+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"],
        ),
        (
            "30 * * * *", "Europe/Berlin", "2026-03-29T01:31+01:00",
            ["2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"],
        ),
    ],
)  # fmt: skip
def test_a_change_of_the_clocks_fires_once(
    cron: str, tz: str, after: str, expected: Sequence[str]
) -> None:
    assert runs(cron, tz, after, len(expected)) == expected


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "30 1 * * *", "*/20 1-3 * * *", "*/15 * * * *"])
@pytest.mark.parametrize("day", ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"])
def test_from_whenever_one_looks_the_ticks_are_the_same(tz: str, cron: str, day: str) -> None:
    timing = timing_of(cron=cron, tz=tz)
    start = wall(f"{day}T00:00+00:00") - 6 * HOUR
    whole, at = [], start
    while at < start + 2 * DAY:
        following = next_after(timing, at)
        assert following is not None
        whole.append(following)
        at = following
    assert all(one < two for one, two in pairwise(whole))
    for look in range(start, start + 2 * DAY - HOUR, 10 * MINUTE):
        coming = next(each for each in whole if each > look)
        assert next_after(timing, look) == coming
        past = [each for each in whole if each <= look]
        if past:
            assert last_until(timing, look, whole[0]) == past[-1]


# -- what cannot be


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        ({"cron": "0 0 31 2 *"}, "there is no such day"),
        ({"cron": "0 0 30 2 *"}, "there is no such day"),
        ({"cron": "61 * * * *"}, "no such minute"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "0 0 0 * * *"}, "five fields"),
        ({"cron": "often"}, "five fields"),
        ({"cron": "@often"}, "five fields"),
        ({"cron": 5}, "write a line"),
        ({"cron": "0 3 * * *", "tz": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron": "0 3 * * *", "tz": ""}, "no time zone ''"),
        ({"cron": "0 3 * * *", "tz": "../etc/passwd"}, "no time zone"),
        ({"every": "0.5s"}, "at most once a second"),
        ({"every": "soon"}, "every is 'soon'"),
        ({"every": "1m", "tz": "Europe/Berlin"}, "tz= belongs to cron="),
        ({"every": "1m", "jitter": "1m"}, "Make the jitter shorter"),
        ({"every": "1m", "cron": "0 3 * * *"}, "either every= or cron="),
        ({}, "either every= or cron="),
    ],
)
def test_a_timing_that_cannot_be_is_refused_with_a_sentence(
    given_: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        timing_of(**given_)


def test_names_of_cron_lines_are_known() -> None:
    assert timing_of(cron="@daily").cron == "0 0 * * *"
    assert runs("0 0 29 2 *", "UTC", "2026-01-01T00:00+00:00", 1) == ["2028-02-29T00:00:00+00:00"]


# -- missed ticks


def test_nothing_is_due_before_its_time() -> None:
    schedule = a_schedule()
    assert step_of(schedule, schedule.next_at - 1) is None
    assert ticks(schedule, due(schedule, schedule.next_at)) == [schedule.next_at]


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_tick_that_is_on_time_is_fired_whatever_the_rest(catch_up: CatchUp) -> None:
    schedule = a_schedule(catch_up=catch_up)
    step = due(schedule, schedule.next_at + SECOND)
    assert ticks(schedule, step) == [schedule.next_at]
    assert step.next_at == schedule.next_at + MINUTE


def test_missed_ticks_are_skipped() -> None:
    schedule = a_schedule(catch_up=CatchUp.NONE)
    step = due(schedule, schedule.next_at + 10 * MINUTE + 30 * SECOND)
    assert step == Step((), schedule.next_at + 11 * MINUTE)
    # The last one is on time, those before it are not.
    step = due(schedule, schedule.next_at + 10 * MINUTE + SECOND)
    assert ticks(schedule, step) == [schedule.next_at + 10 * MINUTE]


def test_missed_ticks_are_one() -> None:
    schedule = a_schedule(catch_up=CatchUp.ONE)
    step = due(schedule, schedule.next_at + 10 * MINUTE + 30 * SECOND)
    assert ticks(schedule, step) == [schedule.next_at + 10 * MINUTE]
    assert step.next_at == schedule.next_at + 11 * MINUTE


def test_missed_ticks_are_each_fired() -> None:
    schedule = a_schedule(catch_up=CatchUp.ALL)
    step = due(schedule, schedule.next_at + 10 * MINUTE + 30 * SECOND)
    assert ticks(schedule, step) == [schedule.next_at + n * MINUTE for n in range(11)]
    assert step.next_at == schedule.next_at + 11 * MINUTE


def test_very_many_missed_ticks_come_a_thousand_at_a_time() -> None:
    schedule = a_schedule(catch_up=CatchUp.ALL)
    now = schedule.next_at + 2_500 * MINUTE
    sizes = []
    while (step := step_of(schedule, now)) is not None:
        sizes.append(len(step.jobs))
        schedule = replace(schedule, next_at=step.next_at)
    assert sizes == [1000, 1000, 501]


def test_ten_years_of_missed_ticks_are_quickly_told() -> None:
    timing = timing_of(cron="* * * * *", tz="Europe/Berlin")
    schedule = a_schedule(timing=timing, next_at=wall("2026-01-01T00:00+01:00"))
    step = due(schedule, wall("2036-01-01T00:00:30+01:00"))
    assert ticks(schedule, step) == [wall("2036-01-01T00:00+01:00")]


# -- jitter


def test_jitter_is_the_same_for_all_who_look_and_another_for_each_tick() -> None:
    schedule = a_schedule(timing=Timing(every=MINUTE, jitter=10 * SECOND))
    moments = [schedule.due_at(n * MINUTE) - n * MINUTE for n in range(200)]
    assert moments == [schedule.due_at(n * MINUTE) - n * MINUTE for n in range(200)]
    assert all(0 <= each <= 10 * SECOND for each in moments)
    assert len(set(moments)) > 190
    assert replace(schedule, id="other").due_at(MINUTE) != schedule.due_at(MINUTE)


def test_a_tick_is_not_fired_before_its_jitter() -> None:
    schedule = a_schedule(timing=Timing(every=MINUTE, jitter=10 * SECOND))
    at = schedule.due_at(schedule.next_at)
    assert step_of(schedule, at - 1) is None
    assert ticks(schedule, due(schedule, at)) == [schedule.next_at]


# -- ids


def test_the_job_of_a_tick_has_an_id_of_its_own_and_always_the_same() -> None:
    schedule = a_schedule()
    made = [schedule.job_of(n * MINUTE).id for n in range(1000)]
    assert made == [schedule.job_of(n * MINUTE).id for n in range(1000)]
    assert len(set(made)) == 1000
    assert all(map(is_id, made))
    assert made == sorted(made)
    assert derived_id(1, "a") != derived_id(1, "b")


# -- the service


class _Store:
    """One schedule, fired by compare and set."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.fired: list[int] = []

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        if self.schedule.next_at <= until:
            return (self.schedule,), None
        return (), self.schedule.next_at

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        if seen.next_at != self.schedule.next_at or next_at <= seen.next_at:
            return Ticked("late", (), self.schedule.next_at)
        self.fired += [seen.tick_of(job) for job in jobs]
        self.schedule = replace(self.schedule, next_at=next_at)
        return Ticked("fired", (), next_at)


def test_a_scheduler_says_when_to_come_again() -> None:
    clock = FakeClock(99 * MINUTE)
    store = _Store(a_schedule())
    scheduler = Scheduler(store, clock)  # type: ignore[arg-type]
    assert scheduler.run() == 100 * MINUTE
    clock.advance(timedelta(minutes=1))
    assert scheduler.run() == 101 * MINUTE
    assert store.fired == [100 * MINUTE]


def test_a_clock_that_is_set_back_fires_nothing_twice() -> None:
    clock = FakeClock(100 * MINUTE)
    store = _Store(a_schedule())
    scheduler = Scheduler(store, clock)  # type: ignore[arg-type]
    for _ in range(10):
        scheduler.run()
        clock.advance(timedelta(minutes=1))
    clock.step_wall(-timedelta(minutes=9))
    for _ in range(12):
        scheduler.run()
        clock.advance(timedelta(minutes=1))
    assert store.fired == [100 * MINUTE + n * MINUTE for n in range(13)]


def test_a_schedule_that_cannot_be_read_here_does_not_stop_the_others() -> None:
    clock = FakeClock(100 * MINUTE)
    store = _Store(a_schedule())
    odd = a_schedule(id="odd", timing=Timing(cron="0 3 * * *", tz="Mars/Olympus"))

    class Both(_Store):
        def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
            found, later = store.due_schedules(until)
            return (odd, *found), later

        def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
            return store.tick(seen, jobs, next_at)

    Scheduler(Both(odd), clock).run()  # type: ignore[arg-type]
    assert store.fired == [100 * MINUTE]


_LINES = ["* * * * *", "*/7 * * * *", "30 2 * * *", "15 */5 * * *", "0 0 1 * *", "5 4 * * SUN"]
_ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
_TIMINGS = some.one_of(
    some.builds(
        Timing,
        every=some.integers(SECOND, 3 * DAY),
        jitter=some.integers(0, SECOND - 1),
    ),
    some.builds(
        Timing,
        cron=some.sampled_from(_LINES),
        tz=some.sampled_from(_ZONES),
        jitter=some.integers(0, 90 * SECOND),
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    timing=_TIMINGS,
    start=some.integers(wall("2025-01-01T00:00+00:00"), wall("2027-01-01T00:00+00:00")),
    gaps=some.lists(some.integers(-3 * HOUR, 2 * DAY), min_size=1, max_size=12),
    catch_up=some.sampled_from(list(CatchUp)),
)
def test_whatever_the_clock_does_ticks_come_once_and_in_order(
    timing: Timing, start: int, gaps: list[int], catch_up: CatchUp
) -> None:
    first = next_after(timing, start)
    assert first is not None
    clock = FakeClock(start)
    store = _Store(a_schedule(timing=timing, next_at=first, catch_up=catch_up))
    schedulers = [Scheduler(store, clock) for _ in range(2)]  # type: ignore[arg-type]
    most = clock.wall()
    for gap in gaps:
        clock.step_wall(timedelta(microseconds=gap))
        most = max(most, clock.wall())
        for _ in range(3):
            for scheduler in schedulers:
                scheduler.run()
    assert all(one < two for one, two in pairwise(store.fired))
    assert all(store.schedule.due_at(tick) <= most for tick in store.fired)
    whole: list[int] = []
    at = first
    while at < store.schedule.next_at and len(whole) < 6_000:
        whole.append(at)
        following = next_after(timing, at, since=at)
        assert following is not None
        at = following
    if catch_up is CatchUp.ALL:
        assert store.fired[:6_000] == whole
    elif len(whole) < 6_000:
        assert set(store.fired) <= set(whole)
