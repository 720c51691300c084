"""Weighted work starts where there is room twice, reserved and measured, and else is told why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.assessment import Admitted, Assessment, Capacity, Waiting, admit
from limpet.domain.errors import InvalidOption
from limpet.domain.permit import PermitRecord, Taken, fits, taken
from limpet.domain.reading import Pressure, Reading
from limpet.domain.weight import HEAVY, Weight
from limpet.gate.assess import LIFETIME_MICROSECONDS, Thresholds, assess

GIB = 1 << 30
SECOND = 1_000_000
NOW = 3_600 * SECOND
LONG_AGO = 3_600 * SECOND
IDLE = Reading(
    host="web-2",
    at=0,
    at_boot=NOW,
    cores=4.0,
    source="host",
    cpu_raw=4.0,
    cpu_ema=4.0,
    memory_total=10 * GIB,
    memory_free=9 * GIB,
    pressure=Pressure(0.0, 0.0, 0.0),
)
CAPACITY = Capacity(4.0, 10 * GIB)


def seen(reading: Reading | None = IDLE, now: int = NOW) -> Assessment:
    return assess("web-2", reading, CAPACITY, now)


def answer(
    weight: Weight, reading: Reading | None = IDLE, *held: PermitRecord
) -> Admitted | Waiting:
    found = seen(reading)
    return admit(weight, found, taken(held, NOW, found.room.unseen))


def reason(weight: Weight, reading: Reading | None = IDLE, *held: PermitRecord) -> str:
    found = answer(weight, reading, *held)
    assert isinstance(found, Waiting)
    assert not found.never
    return found.reason


def held(weight: Weight, age: int = LONG_AGO) -> PermitRecord:
    return PermitRecord("web-2", "job", "session", "task", weight, NOW - age)


def test_an_idle_host_admits() -> None:
    assert answer(Weight(cpu=4, memory="8GiB")) == Admitted()
    assert answer(HEAVY) == Admitted()


def test_a_busy_cpu_is_told_with_its_threshold() -> None:
    busy = replace(IDLE, cpu_raw=336.0, cpu_ema=200.0)
    assert reason(Weight(cpu=1), busy) == "waiting: web-2 CPU 84 % of 80 %"


def test_a_dip_of_the_raw_cpu_is_not_room() -> None:
    dip = replace(IDLE, cpu_raw=0.0, cpu_ema=330.0)
    assert reason(Weight(cpu=0.1), dip) == "waiting: web-2 CPU 82 % of 80 %"


def test_work_that_takes_no_cpu_does_not_wait_for_it() -> None:
    busy = replace(IDLE, cpu_raw=400.0, cpu_ema=400.0)
    assert answer(Weight(memory="1GiB"), busy) == Admitted()


def test_a_group_throttled_within_the_second_has_no_room() -> None:
    throttled = replace(IDLE, throttled=90.0)
    assert reason(Weight(cpu=1), throttled) == "waiting: web-2 CPU throttled 90 % of 80 %"


def test_throttling_is_known_where_the_use_is_not() -> None:
    unknown = replace(IDLE, cpu_raw=None, cpu_ema=None, throttled=90.0)
    assert reason(Weight(cpu=1), unknown) == "waiting: web-2 CPU throttled 90 % of 80 %"
    calm = seen(replace(unknown, throttled=0.0))
    assert calm.room.free_cpu is None
    assert calm.warning == "CPU of web-2 is not measured"


def test_memory_must_be_free_and_the_headroom_with_it() -> None:
    scarce = replace(IDLE, memory_free=int(2.2 * GIB))
    assert (
        reason(Weight(memory="2GiB"), scarce) == "waiting: web-2 memory 1.2 GiB free, 2 GiB needed"
    )
    assert answer(Weight(memory="1GiB"), scarce) == Admitted()


def test_without_headroom_no_weighted_work_starts() -> None:
    full = replace(IDLE, memory_free=GIB // 2)
    assert reason(Weight(cpu=1), full) == "waiting: web-2 memory 95 % of 90 %"
    assert reason(HEAVY, full) == "waiting: web-2 memory 95 % of 90 %"
    # Neither where those who hold permits have taken it, as they said they would.
    held_back = replace(full, cpu_others=0.0, memory_held=8 * GIB)
    assert reason(Weight(memory="1GiB"), held_back) == "waiting: web-2 memory 95 % of 90 %"


def test_the_reason_is_the_one_that_keeps_it_off() -> None:
    both = replace(IDLE, cpu_raw=400.0, cpu_ema=400.0, memory_free=2 * GIB)
    assert reason(Weight(memory="4GiB"), both) == "waiting: web-2 memory 1 GiB free, 4 GiB needed"
    assert reason(Weight(cpu=1, memory="4GiB"), both) == "waiting: web-2 CPU 100 % of 80 %"


@pytest.mark.parametrize("weight", [Weight(cpu=1), Weight(memory=1), HEAVY])
def test_memory_pressure_stops_all_weighted_work(weight: Weight) -> None:
    pressed = replace(IDLE, pressure=Pressure(0.0, 31.0, 0.0))
    assert reason(weight, pressed) == "waiting: web-2 memory pressure 31 % of 10 %"


def test_pressure_on_the_disk_keeps_heavy_work_off_alone() -> None:
    pressed = replace(IDLE, pressure=Pressure(99.0, 0.0, 55.0))
    assert reason(HEAVY, pressed) == "waiting: web-2 disk pressure 55 % of 40 %"
    assert answer(Weight(cpu=1, memory="1GiB"), pressed) == Admitted()


def test_programs_that_take_turns_on_the_cpu_keep_nothing_off() -> None:
    assert answer(HEAVY, replace(IDLE, pressure=Pressure(99.0, 0.0, 0.0))) == Admitted()


def test_declared_weights_must_fit_together() -> None:
    four = [held(Weight(cpu=1.5)), held(Weight(cpu=1.5))]
    assert (
        reason(Weight(cpu=1.5), IDLE, *four) == "waiting: web-2 reserved 3 of 4 cores, 1.5 needed"
    )
    assert answer(Weight(cpu=1), IDLE, *four) == Admitted()
    large = held(Weight(memory="6GiB"))
    assert (
        reason(Weight(memory="4GiB"), IDLE, large)
        == "waiting: web-2 reserved 6 of 9 GiB, 4 GiB needed"
    )


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (Weight(cpu=5), "waiting: web-2 is too small: 5 cores needed, has 4"),
        (
            Weight(memory="9.5GiB"),
            "waiting: web-2 is too small: 9.5 GiB needed, gives at most 9 GiB",
        ),
    ],
)
def test_what_can_never_fit_is_told_so(weight: Weight, words: str) -> None:
    for reading in (IDLE, None):
        assert answer(weight, reading) == Waiting(words, never=True)


def test_a_heavy_job_is_alone_among_the_weighted_and_lets_nobody_come() -> None:
    assert (
        reason(HEAVY, IDLE, held(Weight(cpu=0.1)))
        == "waiting: web-2 has other weighted work, permits: 1"
    )
    assert reason(HEAVY, IDLE, held(HEAVY)) == "waiting: web-2 has heavy work"
    assert reason(Weight(cpu=0.1), IDLE, held(HEAVY)) == "waiting: web-2 has heavy work"


def test_a_heavy_job_waits_for_calm() -> None:
    busy = replace(IDLE, cpu_raw=390.0, cpu_ema=390.0)
    assert reason(HEAVY, busy) == "waiting: web-2 CPU 98 % of 80 %"


def test_a_herd_that_asks_on_one_reading_does_not_all_pass() -> None:
    """The host is half busy with work that nobody declared, so that reservations see nothing."""
    half = replace(IDLE, cpu_raw=200.0, cpu_ema=200.0)
    found = seen(half)
    admitted: list[PermitRecord] = []
    for _ in range(20):
        sums = taken(admitted, NOW, found.room.unseen)
        if isinstance(admit(Weight(cpu=0.6), found, sums), Admitted):
            admitted.append(held(Weight(cpu=0.6), age=0))
    assert len(admitted) == 2  # 50 % and twice 15 % are 80 %
    assert reason(Weight(cpu=0.6), half, *admitted) == (
        "waiting: web-2 CPU 1.2 cores left by others, 1.2 admitted already"
    )


def test_memory_just_admitted_counts_though_it_is_not_used_yet() -> None:
    scarce = replace(IDLE, memory_free=4 * GIB)
    young = held(Weight(memory="2GiB"), age=SECOND)
    assert (
        reason(Weight(memory="2GiB"), scarce, young)
        == "waiting: web-2 memory 1 GiB free, 2 GiB needed"
    )


@pytest.mark.parametrize(("age", "admitted"), [(1, False), (3, False), (5, True)])
def test_a_permit_counts_on_top_until_the_measurement_has_seen_it(age: int, admitted: bool) -> None:
    half = replace(IDLE, cpu_raw=240.0, cpu_ema=240.0)
    found = answer(Weight(cpu=1), half, held(Weight(cpu=1), age=age * SECOND))
    assert isinstance(found, Admitted) is admitted


def test_an_old_reading_has_seen_less() -> None:
    assert seen(IDLE, NOW + 3 * SECOND).room.unseen == seen().room.unseen + 3 * SECOND


@pytest.mark.parametrize("reading", [None, replace(IDLE, at_boot=NOW - LIFETIME_MICROSECONDS)])
def test_an_unknown_host_counts_reservations_only_and_warns(reading: Reading | None) -> None:
    warning = "web-2 is not measured: only reservations count"
    assert answer(Weight(cpu=4), reading) == Admitted(warning)
    assert answer(HEAVY, reading) == Admitted(warning)
    young = held(Weight(cpu=3), age=0)
    assert answer(Weight(cpu=1, memory="9GiB"), reading, young) == Admitted(warning)
    assert (
        reason(Weight(cpu=1.5), reading, young)
        == "waiting: web-2 reserved 3 of 4 cores, 1.5 needed"
    )


def test_a_reading_counts_until_its_life_is_over() -> None:
    busy = replace(IDLE, cpu_raw=400.0, cpu_ema=400.0, at_boot=NOW - LIFETIME_MICROSECONDS + 1)
    assert isinstance(answer(Weight(cpu=1), busy), Waiting)


def test_what_was_not_measured_holds_nothing_back_and_warns() -> None:
    blind = replace(IDLE, cpu_raw=None, cpu_ema=None, memory_free=None)
    warning = "CPU of web-2 is not measured; memory of web-2 is not measured"
    assert answer(Weight(cpu=4, memory="9GiB"), blind) == Admitted(warning)
    lost = replace(blind, memory_total=None)
    assert answer(Weight(memory="900GiB"), lost) == Admitted(warning)


WEIGHTS = st.builds(
    lambda cpu, memory, heavy: Weight(cpu / 1000, memory, heavy=heavy),
    st.integers(1, 3_000),
    st.integers(0, 6 * GIB),
    st.booleans(),
)
READINGS = st.none() | st.builds(
    lambda raw, ema, free: replace(IDLE, cpu_raw=raw, cpu_ema=ema, memory_free=free),
    st.floats(0, 400),
    st.floats(0, 400),
    st.integers(0, 10 * GIB),
)


@given(READINGS, st.lists(st.tuples(WEIGHTS, st.integers(0, 10 * SECOND)), max_size=30))
def test_no_order_of_askers_gets_more_than_there_is(
    reading: Reading | None, askers: list[tuple[Weight, int]]
) -> None:
    found = seen(reading)
    room = found.room
    inside: list[PermitRecord] = []
    for weight, age in askers:
        sums = taken(inside, NOW, room.unseen)
        verdict = admit(weight, found, sums)
        assert isinstance(verdict, Admitted) is fits(room, sums, weight)
        if isinstance(verdict, Waiting):
            assert verdict.reason.startswith("waiting: web-2 ")
            continue
        inside.append(held(weight, age))
        assert room.free_cpu is None or sums.unseen_cpu < room.free_cpu
        assert room.free_memory is None or sums.unseen_memory + weight.memory <= room.free_memory
    total = taken(inside, NOW, room.unseen)
    assert total.cpu <= 4_000
    assert total.memory <= 9 * GIB
    assert not total.heavy or total.permits == 1


def test_nothing_taken_is_nothing() -> None:
    assert taken([], NOW, 5) == Taken()


@pytest.mark.parametrize(
    "options", [{"cpu": 0.0}, {"cpu": 101.0}, {"memory": -1.0}, {"pressure": float("nan")}]
)
def test_thresholds_that_cannot_be_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match="write a percentage"):
        Thresholds(**options)
