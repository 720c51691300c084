"""What holders of permits use is told from what others do, and counts once: as they declared it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.assessment import Capacity
from limpet.domain.load import Smoothing
from limpet.domain.permit import PermitRecord, Room, fits, taken
from limpet.domain.reading import Reading, Use
from limpet.domain.weight import HEAVY, Weight
from limpet.gate.assess import assess
from limpet.gate.measure.holders import Holders
from limpet.gate.measure.trees import Tree, Trees
from limpet.host.marks import LANE, LOOP, lane_with

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


def permit(holder: str, weight: Weight, session: str = "s1") -> PermitRecord:
    return PermitRecord("web-2", holder, session, "render", weight, NOW - 3_600 * SECOND)


def lane(job: str, cpu: float = 0.0, own: int = 0, session: str = "s1", pid: int = 7) -> Tree:
    """An executor that runs this job, with a permit."""
    return Tree(session, pid, lane_with(job), cpu, own, own)


def light(cpu: float, own: int = 0, session: str = "s1", pid: int = 9) -> Tree:
    return Tree(session, pid, LANE, cpu, own, own)


def seen(*trees: Tree, sessions: tuple[str, ...] = ("s1",), ended: float = 0.0) -> Trees:
    found = frozenset((*sessions, *(each.session for each in trees)))
    return Trees(trees, found, dict.fromkeys(found, ended))


NOBODY = Trees((), frozenset(), {})


def busy(cpu: float, memory_free: int = 8 * GIB) -> Reading:
    return replace(IDLE, cpu_raw=cpu, cpu_ema=cpu, memory_free=memory_free)


def room(reading: Reading) -> Room:
    return assess("web-2", reading, Capacity(2.0, 10 * GIB), NOW).room


def may_begin(weight: Weight, reading: Reading, *held: PermitRecord) -> bool:
    found = room(reading)
    return fits(found, taken(held, NOW, found.unseen), weight)


def test_next_job_begins_as_soon_as_one_ends_though_the_average_is_high() -> None:
    """The average falls slowly because a dip is not room; but an end of a permit is no dip."""
    holders, both = Holders(), (permit("j1", CORE), permit("j2", CORE))
    for _ in range(10):
        reading = holders.apart(busy(200.0), seen(lane("j1", 100), lane("j2", 100, pid=8)), both)
    assert not may_begin(CORE, reading, *both)
    assert may_begin(CORE, reading, both[0])
    assert not may_begin(CORE, busy(200.0), both[0])


def test_herd_is_held_back_by_what_it_declared_for_as_long_as_it_runs() -> None:
    holders = Holders()
    reading = holders.apart(busy(60.0), NOBODY, ())
    one = permit("j1", CORE)
    assert may_begin(CORE, reading)
    assert not may_begin(CORE, reading, one)  # 30 % and 50 % are 80 %


def test_dip_of_others_is_not_room() -> None:
    holders = Holders(Smoothing(rise=0.7, fall=0.1))
    for _ in range(10):
        holders.apart(busy(200.0), NOBODY, ())
    reading = holders.apart(busy(0.0), NOBODY, ())
    assert reading.cpu_others is not None
    assert reading.cpu_others > 170
    assert not may_begin(CORE, reading)


def test_what_a_job_uses_beyond_its_word_keeps_others_off() -> None:
    holders, one = Holders(), permit("j1", CORE)
    for _ in range(3):
        reading = holders.apart(busy(190.0), seen(lane("j1", 190)), [one])
    assert reading.cpu_others == 90.0
    assert not may_begin(CORE, reading, one)


def test_job_that_ended_within_the_second_was_no_others() -> None:
    holders = Holders()
    holders.apart(busy(100.0), seen(lane("j1", 100)), [permit("j1", CORE)])
    reading = holders.apart(busy(80.0), seen(light(80, pid=7)), ())
    assert reading.cpu_others == 0.0


def test_job_whose_executor_ended_with_it_was_no_others() -> None:
    holders = Holders()
    holders.apart(busy(100.0), seen(lane("j1", 100)), [permit("j1", CORE)])
    reading = holders.apart(busy(70.0), seen(ended=70.0), ())
    assert reading.cpu_others == 0.0


def test_heavy_job_leaves_no_trace_in_the_average() -> None:
    holders = Holders()
    for _ in range(10):
        holders.apart(busy(200.0), seen(lane("j1", 195)), [permit("j1", HEAVY)])
    reading = holders.apart(busy(100.0), seen(light(95, pid=7)), ())
    assert reading.cpu_others == 5.0
    assert room(reading).calm


def test_memory_that_grows_slowly_is_kept_for_who_declared_it() -> None:
    """Beside what others hold: reservations alone would admit a second one of the same size."""
    big = Weight(memory="3GiB")
    others = 4 * GIB
    one = permit("j1", big)
    holders = Holders()
    holders.apart(busy(0.0), seen(light(0.0, pid=7)), ())
    for used in (0, GIB // 2, 2 * GIB, 3 * GIB):
        reading = holders.apart(
            busy(0.0, 10 * GIB - others - used), seen(lane("j1", own=used)), [one]
        )
        assert reading.memory_held == used
        assert may_begin(Weight(memory="2GiB"), reading, one)
        assert not may_begin(big, reading, one)


def test_light_work_of_the_same_worker_does_not_hide_behind_a_permit() -> None:
    holders, idle = Holders(), permit("j1", Weight(cpu=1, memory="3GiB"))
    for _ in range(2):
        reading = holders.apart(
            busy(100.0, 5 * GIB), seen(lane("j1"), light(100.0, own=3 * GIB)), [idle]
        )
    assert reading.cpu_others == 100.0
    assert reading.memory_held == 0


def test_job_that_takes_too_much_does_not_hide_behind_another() -> None:
    holders = Holders()
    permits = [permit("j1", Weight(memory="1GiB")), permit("j2", Weight(memory="4GiB"))]
    reading = holders.apart(
        busy(0.0), seen(lane("j1", own=4 * GIB), lane("j2", own=0, pid=8)), permits
    )
    assert reading.memory_held == GIB


def test_what_an_executor_held_before_the_job_is_not_the_jobs() -> None:
    holders, one = Holders(), permit("j1", Weight(memory="3GiB"))
    holders.apart(IDLE, seen(light(0.0, own=2 * GIB, pid=7)), ())
    for _ in range(2):
        reading = holders.apart(IDLE, seen(lane("j1", own=3 * GIB)), [one])
    assert reading.memory_held == GIB


def test_jobs_in_a_loop_count_together() -> None:
    holders = Holders()
    permits = [permit("j1", Weight(cpu=0.5, memory="1GiB")), permit("j2", Weight(cpu=0.2))]
    holders.apart(IDLE, seen(Tree("s1", 7, LOOP, 0.0, GIB, GIB)), ())
    for _ in range(2):
        reading = holders.apart(
            busy(100.0), seen(Tree("s1", 7, LOOP, 100.0, 3 * GIB, 3 * GIB)), permits
        )
    assert reading.cpu_others == 30.0
    assert reading.memory_held == GIB


def test_command_is_told_by_its_session() -> None:
    holders, one = Holders(), permit("c1", Weight(cpu=1, memory="3GiB"), "c1")
    for _ in range(2):
        tree = Tree("c1", 50, "ffmpeg", 150.0, 2 * GIB, 2 * GIB)
        reading = holders.apart(busy(170.0), seen(tree), [one])
    assert (reading.cpu_others, reading.memory_held) == (70.0, 2 * GIB)


def test_program_is_told_by_what_was_measured_of_it() -> None:
    holders, one = Holders(), permit("c1", Weight(cpu=1, memory="3GiB"), "c1")
    for _ in range(2):
        uses = {"c1": Use(80.0, GIB)}
        reading = holders.apart(busy(100.0), seen(), [one], uses)
    assert (reading.cpu_others, reading.memory_held) == (20.0, GIB)


def test_holder_that_cannot_be_seen_counts_by_what_is_measured() -> None:
    holders, one = Holders(), permit("c1", CORE, "c1")
    for _ in range(2):
        reading = holders.apart(busy(100.0), NOBODY, [one])
    assert reading == busy(100.0)
    assert may_begin(Weight(cpu=0.5), reading, one)


def test_command_that_has_just_begun_is_not_missed() -> None:
    holders = Holders()
    holders.apart(IDLE, NOBODY, ())
    assert holders.apart(IDLE, NOBODY, [permit("c1", CORE, "c1")]).cpu_others == 0.0


def test_where_the_cpu_is_not_known_nothing_is_told_apart() -> None:
    unknown = replace(IDLE, cpu_raw=None, cpu_ema=None)
    assert Holders().apart(unknown, NOBODY, ()) == unknown


@given(
    used=st.lists(st.floats(0, 400), min_size=1, max_size=4),
    declared=st.floats(0.1, 4),
    others=st.floats(0, 200),
)
def test_nothing_used_is_left_out(used: list[float], declared: float, others: float) -> None:
    """What others are told to use and what holders declared cover all that is used."""
    trees = [lane(f"j{index}", each, pid=index) for index, each in enumerate(used)]
    beside = light(others, pid=100)
    permits = [permit(f"j{index}", Weight(cpu=declared)) for index in range(len(used))]
    raw = sum(used) + others
    reading = Holders().apart(replace(busy(raw), cores=20.0), seen(*trees, beside), permits)
    assert reading.cpu_others is not None
    counted = reading.cpu_others + 100 * sum(each.weight.cpu for each in permits)
    assert counted >= raw - 0.01
    assert reading.cpu_others >= others - 0.01
    assert reading.cpu_others <= raw + 0.01
