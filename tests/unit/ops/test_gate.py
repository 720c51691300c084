"""What front ends are told of hosts and of the gate."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from contract.driver import LEASE, new_id
from contract.gates import CORE, GIB, ROOM
from contract.test_callers import waiting
from contract.test_permits import caller
from contract.test_reservations import crowd
from unit.drawn import drawn

from limpet.cli.host_detail import detail_picture
from limpet.cli.host_picture import hosts_picture, status_picture, status_text
from limpet.domain.assessment import Assessment, Capacity
from limpet.domain.reading import ExecutorUse, Pressure, Reading
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.weight import Weight
from limpet.gate.assess import LIFETIME_MICROSECONDS, Thresholds
from limpet.gate.gauge import Gauge, Look, given_by, published_look, waits_for
from limpet.gate.published import Published, written
from limpet.gate.this_host import ThisHost
from limpet.host.boot import boot_id
from limpet.ops.gate import gate_status
from limpet.ops.host_answer import HistoryAnswer, SampleAnswer
from limpet.ops.hosts import list_hosts, show_host
from limpet.ops.record import plain
from limpet.storage.contract.store import Store
from limpet.storage.sqlite.store import SqliteStore
from limpet.testing.clock import FakeClock

HERE = ThisHost("web-1")
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
    assert published_look(here, clock) is not None
    clock.advance(timedelta(microseconds=1))
    assert published_look(here, clock) is None
    assert published_look(there, clock) is not None  # as long as the store says that it holds


def test_reading_that_cannot_be_read_is_none(store: Store, clock: FakeClock) -> None:
    store.publish_host("web-1", '{"of": "another version"}', LONG)
    (told,) = store.hosts()
    assert published_look(told, clock) is None
    (host,) = list_hosts(store, clock)
    assert (host.monitor, host.ready) == (None, None)
    assert plain(host) == {
        "server": "web-1",
        "monitor": None,
        "age_seconds": None,
        "ready": None,
        "reason": "no monitor reports on web-1: only reservations count",
        "executors": (),
        "permits": (),
        "reserved_for": None,
    }


def test_silent_monitor_is_replaced_by_own_eyes(store: Store, clock: FakeClock) -> None:
    gauge = Gauge(store, HERE, clock, first_seconds=0.0)
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
    assert host.reserved_for == job


def test_reservation_of_a_caller_is_the_reason_for_others(store: Store, clock: FakeClock) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    given = given_by(store, ROOM.server)
    other = waits_for(Assessment(ROOM), given, CORE, clock.wall())
    assert other is not None
    assert other.reason == "waiting: web-1 is reserved for backup"
    own = waits_for(Assessment(ROOM), given, patient.weight, clock.wall(), patient.id)
    assert own is not None
    assert own.reason == "waiting: web-1 reserved 1 of 4 cores, 4 needed"
    (host,) = list_hosts(store, clock)
    assert host.reserved_for == "backup"


def test_host_of_which_nothing_is_known_is_ready_with_a_warning(
    store: Store, clock: FakeClock
) -> None:
    publish(store, reading(clock, busy=None, memory=None))
    status = gate_status(store, Gauge(store, HERE, clock).look(), clock.wall())
    assert status.ready
    assert status.cpu_effective_percent is None
    assert status.memory.used_percent is None
    assert "CPU of web-1 is not measured" in status.warning
    assert "CPU unknown" in status_text(status)


@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
def test_picture_fits_whatever_is_known(store: Store, clock: FakeClock, width: int) -> None:
    publish(store, reading(clock))
    publish(store, reading(clock, busy=95), "web-2")
    publish(store, reading(clock, busy=None, memory=None), "web-3")
    me = caller(store)
    assert store.take_permit(me, CORE, ROOM._replace(server="cron-1"))
    parts = hosts_picture(list_hosts(store, clock), width)
    look: Look = Gauge(store, HERE, clock).look()
    parts += status_picture(gate_status(store, look, clock.wall()))
    for server in ("web-1", "web-2", "web-3", "cron-1"):
        parts += detail_picture(show_host(store, server, clock), width)
    assert len(drawn(parts, width)) > 40


def test_past_shows_the_largest_of_each_cell_and_blanks_where_nothing_is_known(
    store: Store, clock: FakeClock
) -> None:
    now = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)

    def sample(seconds: float, cpu: float | None) -> SampleAnswer:
        at = (now - timedelta(seconds=seconds)).isoformat()
        return SampleAnswer(at=at, cpu_percent=cpu, memory_percent=None, pressure_percent=None)

    seconds = (sample(899, 0), sample(700, 30), sample(699, 85), sample(450, None), sample(0, 100))
    publish(store, reading(clock))
    history = HistoryAnswer(seconds=seconds, minutes=())
    host = msgspec.structs.replace(show_host(store, "web-1", clock), history=history)
    width = 12 + 9 + 12  # nine cells of 100 s
    plain_lines = drawn(detail_picture(host, width, now), width)
    (past,) = (line for line in plain_lines if "most" in line)
    assert past == "  last 15m  ▁ ▇     █  most 100 %"
    assert sum("no samples" in line for line in plain_lines) == 3
    coloured = "\n".join(drawn(detail_picture(host, width, now), width, colours=True))
    assert "\033[31m▇\033[0m" in coloured
    assert "\033[31m█\033[0m" in coloured


def test_executors_are_told_with_their_worker(store: Store, clock: FakeClock) -> None:
    worker = NewSession(new_id(), SessionKind.WORKER, "w1", "host", 1, LEASE)
    store.register(worker)
    executors = (ExecutorUse(worker.id, 7, 150.0, GIB), ExecutorUse("of another store", 8, 0.0, 5))
    publish(store, replace(reading(clock), executor_use=executors))
    host = show_host(store, "web-1", clock)
    assert plain(host)["executors"] == (
        {"session": worker.id, "pid": 7, "cpu": 150.0, "memory": GIB, "name": "w1"},
        {"session": "of another store", "pid": 8, "cpu": 0.0, "memory": 5, "name": None},
    )
    text = "\n".join(drawn(detail_picture(host, 100), 100))
    assert "executors 2: 1.50 cores, 1 GiB" in text
    assert re.search(r"w1 +7 +1.50 +1 GiB", text)


def test_of_many_executors_the_busiest_are_shown_and_all_are_counted(
    store: Store, clock: FakeClock
) -> None:
    executors = tuple(ExecutorUse("s", pid, float(pid), GIB) for pid in range(1, 13))
    publish(store, replace(reading(clock), executor_use=executors))
    text = "\n".join(drawn(detail_picture(show_host(store, "web-1", clock), 100), 100))
    assert "executors 12: 0.78 cores, 12 GiB" in text
    assert "and 2 more; --json has all of them" in text
    assert not re.search(r" 2 +0.02 ", text)
