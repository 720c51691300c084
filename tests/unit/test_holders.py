"""What holders of permits use is told from what others do, and counts once: as they declared it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.assessment import Capacity
from limpet.domain.load import Smoothing
from limpet.domain.permit import Permit, Room, fits, taken
from limpet.domain.reading import Reading, Use
from limpet.domain.weight import HEAVY, Weight
from limpet.host.gate import assess
from limpet.host.holders import Holders

GIB = 1 << 30
SECOND = 1_000_000
NOW = 3_600 * SECOND
CORE = Weight(cpu=1)
IDLE = Reading(
    host="web-2",
    at=0,
    at_boot=NOW,
    cores=2.0,
    source="host",
    cpu_raw=0.0,
    cpu_ema=0.0,
    memory_total=10 * GIB,
    memory_free=8 * GIB,
)


def permit(holder: str, weight: Weight, session: str = "s1") -> Permit:
    return Permit("web-2", holder, session, "render", weight, NOW - 3_600 * SECOND)


def busy(cpu: float, memory_free: int = 8 * GIB) -> Reading:
    return replace(IDLE, cpu_raw=cpu, cpu_ema=cpu, memory_free=memory_free)


def room(reading: Reading) -> Room:
    return assess("web-2", reading, Capacity(2.0, 10 * GIB), NOW).room


def may_begin(weight: Weight, reading: Reading, *held: Permit) -> bool:
    found = room(reading)
    return fits(found, taken(held, NOW, found.unseen), weight)


def test_next_job_begins_as_soon_as_one_ends_though_the_average_is_high() -> None:
    """The average falls slowly because a dip is not room; but an end of a permit is no dip."""
    holders, both = Holders(), (permit("j1", CORE), permit("j2", CORE))
    for _ in range(10):
        reading = holders.apart(busy(200.0), {"s1": Use(200.0, 0)}, both)
    assert not may_begin(CORE, reading, *both)
    assert may_begin(CORE, reading, both[0])
    assert not may_begin(CORE, busy(200.0), both[0])


def test_herd_is_held_back_by_what_it_declared_for_as_long_as_it_runs() -> None:
    holders = Holders()
    reading = holders.apart(busy(60.0), {}, ())
    one = permit("j1", CORE)
    assert may_begin(CORE, reading)
    assert not may_begin(CORE, reading, one)  # 30 % and 50 % are 80 %


def test_dip_of_others_is_not_room() -> None:
    holders = Holders(Smoothing(rise=0.7, fall=0.1))
    for _ in range(10):
        holders.apart(busy(200.0), {}, ())
    reading = holders.apart(busy(0.0), {}, ())
    assert reading.cpu_others is not None
    assert reading.cpu_others > 170
    assert not may_begin(CORE, reading)


def test_what_a_job_uses_beyond_its_word_keeps_others_off() -> None:
    holders, one = Holders(), permit("j1", CORE)
    for _ in range(3):
        reading = holders.apart(busy(190.0), {"s1": Use(190.0, 0)}, [one])
    assert reading.cpu_others == 90.0
    assert not may_begin(CORE, reading, one)


def test_job_that_ended_within_the_second_was_no_others() -> None:
    holders = Holders()
    holders.apart(busy(100.0), {"s1": Use(100.0, 0)}, [permit("j1", CORE)])
    reading = holders.apart(busy(80.0), {"s1": Use(80.0, 0)}, ())
    assert reading.cpu_others == 0.0


def test_heavy_job_leaves_no_trace_in_the_average() -> None:
    holders = Holders()
    for _ in range(10):
        holders.apart(busy(200.0), {"s1": Use(195.0, 0)}, [permit("j1", HEAVY)])
    reading = holders.apart(busy(100.0), {"s1": Use(95.0, 0)}, ())
    assert reading.cpu_others == 5.0
    assert room(reading).calm


def test_memory_that_grows_slowly_is_kept_for_who_declared_it() -> None:
    """Beside what others hold: reservations alone would admit a second one of the same size."""
    big = Weight(memory="3GiB")
    others = 4 * GIB
    one = permit("j1", big)
    holders = Holders()
    for used in (0, GIB // 2, 2 * GIB, 3 * GIB):
        reading = holders.apart(busy(0.0, 10 * GIB - others - used), {"s1": Use(0.0, used)}, [one])
        assert may_begin(Weight(memory="2GiB"), reading, one)
        assert not may_begin(big, reading, one)


def test_holder_that_cannot_be_seen_counts_by_what_is_measured() -> None:
    holders, one = Holders(), permit("c1", CORE, "c1")
    for _ in range(2):
        reading = holders.apart(busy(100.0), {}, [one])
    assert reading == busy(100.0)
    assert may_begin(Weight(cpu=0.5), reading, one)


def test_command_that_has_just_begun_is_not_missed() -> None:
    holders = Holders()
    holders.apart(IDLE, {}, ())
    assert holders.apart(IDLE, {}, [permit("c1", CORE, "c1")]).cpu_others == 0.0


def test_where_the_cpu_is_not_known_nothing_is_told_apart() -> None:
    unknown = replace(IDLE, cpu_raw=None, cpu_ema=None)
    assert Holders().apart(unknown, {}, ()) == unknown


@given(
    used=st.lists(st.floats(0, 400), min_size=1, max_size=4),
    declared=st.floats(0.1, 4),
    others=st.floats(0, 200),
)
def test_nothing_used_is_left_out(used: list[float], declared: float, others: float) -> None:
    """What others are told to use and what holders declared cover all that is used."""
    uses = {f"s{index}": Use(each, 0) for index, each in enumerate(used)}
    permits = [permit(each, Weight(cpu=declared), each) for each in uses]
    raw = min(sum(used) + others, 800.0)
    reading = Holders().apart(replace(busy(raw), cores=8.0), uses, permits)
    assert reading.cpu_others is not None
    counted = reading.cpu_others + 100 * sum(each.weight.cpu for each in permits)
    assert counted >= raw - 0.01
    assert reading.cpu_others <= raw + 0.01
