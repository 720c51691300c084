"""Whoever reads what a host has said can judge it, and knows how old that is."""

from datetime import timedelta

import pytest

from limpet.domain.assessment import Assessment, Capacity
from limpet.domain.host import Host
from limpet.domain.reading import Reading
from limpet.gate.assess import Thresholds
from limpet.gate.published import Published, assess_published, published_of, written
from limpet.testing.clock import FakeClock

SECOND = 1_000_000
OLD = "web-2 is not measured: only reservations count"


def said(clock: FakeClock, cpu: float = 180.0) -> Host:
    reading = Reading(
        host="web-2", at=clock.wall(), at_boot=clock.boot(), cores=2.0, source="host",
        cpu_raw=cpu, cpu_ema=cpu, memory_total=1000, memory_free=900,
    )  # fmt: skip
    body = written(
        Published(reading, Capacity(2.0, 1000), Thresholds(cpu=65), "here", "w1", "session")
    )
    return Host("web-2", body, clock.wall(), clock.wall() + 10 * SECOND)


def judged(host: Host, clock: FakeClock, boot: str = "here") -> Assessment:
    found = assess_published(host, clock.wall(), boot, clock.boot())
    assert found is not None
    return found


def test_host_is_judged_by_the_thresholds_that_it_has() -> None:
    clock = FakeClock()
    assert judged(said(clock), clock).reason == "waiting: web-2 CPU 90 % of 65 %"


def test_same_machine_knows_the_age_whatever_wall_clocks_say() -> None:
    clock = FakeClock()
    host = said(clock)
    clock.step_wall(timedelta(hours=1))
    assert judged(host, clock).warning == ""
    clock.advance(timedelta(seconds=10))
    assert judged(host, clock).warning == OLD


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_other_machine_believes_the_store_that_it_still_holds(hours: int) -> None:
    """Boot times of two machines have nothing to do with each other, and wall clocks differ."""
    clock = FakeClock()
    host = said(clock)
    elsewhere = FakeClock(boot=clock.boot() + 5_000 * SECOND)
    elsewhere.step_wall(timedelta(hours=hours))
    assert judged(host, elsewhere, "there").reason == "waiting: web-2 CPU 90 % of 65 %"
    just_started = FakeClock(boot=5 * SECOND)
    assert judged(host, just_started, "there").room.unseen == 4 * SECOND


def test_what_cannot_be_read_tells_nothing() -> None:
    clock = FakeClock()
    host = said(clock)._replace(body='{"reading": 7}')
    assert assess_published(host, clock.wall(), "here", clock.boot()) is None


def test_reading_of_the_version_before_can_be_read() -> None:
    """Workers of both run side by side during a deploy; its executors were told in another way."""
    text = (
        '{"reading":{"host":"web-2","at":1,"at_boot":2,"cores":2.0,"source":"host",'
        '"cpu_raw":10.0,"cpu_ema":12.0,"throttled":null,"memory_total":100,"memory_free":60,'
        '"disk_free":7,"pressure":{"cpu":0.0,"memory":0.0,"io":0.0},"load":0.5,'
        '"executors":{"10":{"cpu":1.5,"memory":9}}},"capacity":{"cores":2.0,"memory":100},'
        '"thresholds":{"cpu":80.0,"memory":90.0,"pressure":10.0},"boot":"b","worker":"w",'
        '"session":"s"}'
    )
    published = published_of(text)
    assert published is not None
    assert published.reading.cpu_effective == 12.0
    assert published.reading.executor_use == ()
