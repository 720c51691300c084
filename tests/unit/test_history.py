"""The history of a host is bounded, and its gaps are shown as gaps."""

from limpet.domain.reading import Pressure, Reading
from limpet.host.history import COLUMNS, UNKNOWN, History, Ring, Span

START = 1_893_456_000
SECOND = 1_000_000


def reading(second: int, cpu: float | None = 50.0) -> Reading:
    return Reading(
        host="web-2",
        at=second * SECOND,
        at_boot=0,
        cores=2.0,
        source="host",
        cpu_raw=None if cpu is None else cpu * 2,
        cpu_ema=0.0,
        memory_total=1000,
        memory_free=750,
        pressure=Pressure(memory=1.5),
    )


def test_seconds_are_kept_for_a_quarter_of_an_hour() -> None:
    history = History()
    for second in range(1_000):
        history.add(reading(START + second, cpu=second % 100))
    span = history.seconds.span()
    assert (span.start, span.step) == (START + 100, 1)
    assert [len(column) for column in span.columns.values()] == [900] * 3
    assert span.columns["cpu"][:2] == [0, 10]
    assert span.columns["memory"][0] == 250
    assert span.columns["pressure"][0] == 15


def test_a_minute_has_the_mean_of_what_was_known() -> None:
    history = History()
    full = [
        history.add(reading(START + second, cpu=None if second % 2 else 10.0 + second // 60))
        for second in range(121)
    ]
    assert [second for second, told in enumerate(full) if told] == [60, 120]
    span = history.minutes.span()
    assert (span.start, span.step, span.columns["cpu"]) == (START, 60, [100, 110])


def test_minutes_are_kept_for_a_week() -> None:
    ring = History().minutes
    for minute in range(20_000):
        ring.put(minute, (minute % 1000, 0, 0))
    span = ring.span()
    assert len(span.columns["cpu"]) == 7 * 24 * 60
    assert span.start == (20_000 - 7 * 24 * 60) * 60
    assert span.columns["cpu"][-1] == 999


def test_steps_left_out_are_unknown() -> None:
    ring = Ring(1, 5)
    ring.put(10, (1, 1, 1))
    ring.put(13, (2, 2, 2))
    assert ring.span() == Span(10, 1, {name: [1, UNKNOWN, UNKNOWN, 2] for name in COLUMNS})
    ring.put(100, (3, 3, 3))
    assert ring.span().columns["cpu"] == [UNKNOWN] * 4 + [3]


def test_what_is_new_can_be_told_alone() -> None:
    ring = Ring(60, 5)
    for minute in range(4):
        ring.put(minute, (minute, 0, 0))
    assert ring.span(since=61).start == 120
    assert ring.span(since=61).columns["cpu"] == [2, 3]
    assert ring.span(since=999).columns["cpu"] == []
    assert Ring(60, 5).span().columns["cpu"] == []


def test_a_clock_set_back_a_little_loses_nothing_and_far_back_begins_anew() -> None:
    ring = Ring(1, 100)
    ring.put(1_000, (1, 1, 1))
    ring.put(995, (2, 2, 2))
    assert ring.span().columns["cpu"] == [1]
    ring.put(1_000, (3, 3, 3))
    assert ring.span().columns["cpu"] == [3]
    ring.put(500, (4, 4, 4))
    assert (ring.span().start, ring.span().columns["cpu"]) == (500, [4])


def test_another_monitor_goes_on_where_the_last_one_ended() -> None:
    first, second = History(), History()
    for each in range(200):
        first.add(reading(START + each))
    second.resume(first.minutes.span())
    for each in range(200, 300):
        second.add(reading(START + each))
    assert second.minutes.span().columns["cpu"] == [500] * 4
