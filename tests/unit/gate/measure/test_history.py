"""What a host carried is kept by the second, and by the minute as the mean of what was known."""

import json

from limpet.domain.host import Sample, Span
from limpet.domain.reading import Pressure, Reading
from limpet.gate.measure.history import History

START = 1_893_456_000
SECOND = 1_000_000


def reading(second: float, cpu: float | None = 50.0) -> Reading:
    return Reading(
        host="web-2",
        at=round(second * SECOND),
        at_boot=0,
        cores=2.0,
        source="host",
        cpu_raw=None if cpu is None else cpu * 2,
        cpu_ema=0.0,
        memory_total=1000,
        memory_free=750,
        pressure=Pressure(memory=1.54),
    )


def test_each_reading_is_a_sample_of_its_second() -> None:
    (sample,) = History().add(reading(START + 0.7))
    assert sample == Sample(
        Span.SECOND, START * SECOND, '{"cpu":50.0,"memory":25.0,"pressure":1.5}'
    )


def test_a_minute_is_told_when_it_is_full_with_the_mean_of_what_was_known() -> None:
    history = History()
    told = [
        (second, sample)
        for second in range(121)
        for sample in history.add(
            reading(START + second, cpu=None if second % 2 else 10.0 + second // 60)
        )
        if sample.span is Span.MINUTE
    ]
    assert [second for second, _ in told] == [60, 120]
    assert [sample.at for _, sample in told] == [START * SECOND, (START + 60) * SECOND]
    assert [json.loads(sample.body)["cpu"] for _, sample in told] == [10.0, 11.0]


def test_what_was_never_known_in_a_minute_is_not_known_of_it() -> None:
    history = History()
    history.add(reading(START, cpu=None))
    _, minute = history.add(reading(START + 60, cpu=None))
    assert json.loads(minute.body)["cpu"] is None
