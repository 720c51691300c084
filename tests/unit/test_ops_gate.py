"""What front ends are told of hosts and of the gate."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from contract.gates import CORE, GIB, ROOM
from contract.test_callers import waiting
from contract.test_permits import caller
from contract.test_reservations import crowd

from limpet.cli.host_picture import hosts_lines, status_lines, status_text
from limpet.cli.style import width_of
from limpet.domain.assessment import Assessment, Capacity
from limpet.domain.reading import Pressure, Reading
from limpet.domain.weight import Weight
from limpet.host.gate import LIFETIME_MICROSECONDS, Thresholds
from limpet.host.here import Here
from limpet.host.wire import Published, written
from limpet.ops.gate import Gauge, Look, gate_status, given_by, told_by, waits_for
from limpet.ops.hosts import list_hosts
from limpet.storage.base import Store
from limpet.storage.boot import boot_id
from limpet.storage.sqlite.store import SqliteStore
from limpet.testing.clock import FakeClock

HERE = Here("web-1")
LONG = timedelta(minutes=5)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[Store]:
    with closing(SqliteStore("sqlite://", clock)) as opened:
        opened.migrate()
        yield opened


def reading(clock: FakeClock, busy: float | None = 20.0, memory: int | None = 8 * GIB) -> Reading:
    return Reading(
        host="web-1",
        at=clock.wall(),
        at_boot=clock.boot(),
        cores=4.0,
        source="host",
        cpu_raw=None if busy is None else busy * 4,
        cpu_ema=None if busy is None else busy * 4,
        memory_total=memory,
        memory_free=memory,
        pressure=Pressure(memory=0.0),
    )


def publish(store: Store, told: Reading, server: str = "web-1", boot: str = boot_id()) -> None:
    capacity = Capacity(told.cores, told.memory_total)
    body = Published(told, capacity, Thresholds(), boot, "a-worker", "a-session")
    store.publish_host(server, written(body), LONG)


def test_reading_is_used_while_it_is_fresh(store: Store, clock: FakeClock) -> None:
    publish(store, reading(clock))
    publish(store, reading(clock), "web-2", boot="another machine")
    assert Gauge(store, HERE, clock).look().measured_here is False
    here, there = store.hosts()
    clock.advance(timedelta(microseconds=LIFETIME_MICROSECONDS - 1))
    assert told_by(here, clock) is not None
    clock.advance(timedelta(microseconds=1))
    assert told_by(here, clock) is None
    assert told_by(there, clock) is not None  # as long as the store says that it holds


def test_reading_that_cannot_be_read_is_none(store: Store, clock: FakeClock) -> None:
    store.publish_host("web-1", '{"of": "another version"}', LONG)
    (told,) = store.hosts()
    assert told_by(told, clock) is None
    (host,) = list_hosts(store, clock)
    assert (host["monitor"], host["ready"]) == (None, None)


def test_silent_monitor_is_replaced_by_own_eyes(store: Store, clock: FakeClock) -> None:
    gauge = Gauge(store, HERE, clock, first=0.0)
    look = gauge.look()
    assert look.measured_here
    assert look.source.startswith("measured here")
    clock.advance(timedelta(milliseconds=400))
    assert gauge.look().reading is look.reading  # the average is one of seconds
    clock.advance(timedelta(milliseconds=600))
    assert gauge.look().reading is not look.reading
    publish(store, reading(clock))
    assert not gauge.look().measured_here
    gauge.close()


def test_reservation_is_the_reason(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    given = given_by(store, ROOM.server)
    waiting = waits_for(Assessment(ROOM), given, CORE, clock.wall())
    assert waiting is not None
    assert waiting.reason == f"waiting: web-1 is reserved for job {job}"
    assert waits_for(Assessment(ROOM), given, CORE, clock.wall(), job) != waiting
    never = waits_for(Assessment(ROOM), given, Weight(64), clock.wall())
    assert never is not None
    assert never.never
    (host,) = list_hosts(store, clock)
    assert host["reserved_for"] == job


def test_reservation_of_a_caller_is_the_reason_for_others(store: Store, clock: FakeClock) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    given = given_by(store, ROOM.server)
    other = waits_for(Assessment(ROOM), given, CORE, clock.wall())
    assert other is not None
    assert other.reason == "waiting: web-1 is reserved for backup"
    own = waits_for(Assessment(ROOM), given, patient.weight, clock.wall(), patient.id)
    assert own is not None
    assert own.reason == "waiting: web-1 reserved 1 of 4 cores"
    (host,) = list_hosts(store, clock)
    assert host["reserved_for"] == "backup"


def test_host_of_which_nothing_is_known_is_ready_with_a_warning(
    store: Store, clock: FakeClock
) -> None:
    publish(store, reading(clock, busy=None, memory=None))
    status = gate_status(store, Gauge(store, HERE, clock).look(), clock.wall())
    assert status["ready"]
    assert status["cpu_effective"] is None
    assert status["memory"]["used_percent"] is None
    assert "CPU of web-1 is not measured" in status["warning"]
    assert "CPU unknown" in status_text(status)


@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
def test_picture_fits_whatever_is_known(store: Store, clock: FakeClock, width: int) -> None:
    publish(store, reading(clock))
    publish(store, reading(clock, busy=95), "web-2")
    publish(store, reading(clock, busy=None, memory=None), "web-3")
    me = caller(store)
    assert store.take_permit(me, CORE, ROOM._replace(server="cron-1"))
    lines = hosts_lines(list_hosts(store, clock), width)
    look: Look = Gauge(store, HERE, clock).look()
    lines += status_lines(gate_status(store, look, clock.wall()), width)
    assert all(width_of("".join(text for text, _ in line)) <= width for line in lines)
