"""The rules of the domain, on their own."""

import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.cause import Cause, Unknown, WorkerVanished, cause_of
from limpet.domain.clock import SystemClock
from limpet.domain.duration import Duration, duration, spoken
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import IdSource, is_id
from limpet.domain.job import Counters, masked
from limpet.domain.lease import Digest, digest
from limpet.domain.queue import checked_name, kept_for, priority_level, sort_key
from limpet.domain.retry import Retry, wait_before_retry
from limpet.domain.state import FINAL, TABLE, Move, State, allows, chart
from limpet.domain.transition import MOST_ORPHANS, MOST_STRIKES, after_loss


class StuckClock:
    def __init__(self, wall: int) -> None:
        self.now = wall

    def wall(self) -> int:
        return self.now

    def boot(self) -> int:
        return self.now


def test_ids_sort_by_time_and_grow_within_one_moment() -> None:
    clock = StuckClock(1_700_000_000_000_000)
    ids = IdSource(clock)
    made = [ids.new() for _ in range(1000)]
    clock.now += 1000
    made.append(ids.new())
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(is_id(each) for each in made)


def test_ids_go_on_growing_when_the_clock_is_set_back() -> None:
    clock = StuckClock(1_700_000_000_000_000)
    ids = IdSource(clock)
    first = ids.new()
    clock.now -= 3_600_000_000
    assert ids.new() > first


def test_a_forked_child_does_not_make_its_parents_ids() -> None:
    ids = IdSource(StuckClock(1_700_000_000_000_000))
    ids.new()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "\n".join(ids.new() for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    childs = set(os.read(read, 65_536).decode().split("\n"))
    os.close(read)
    os.close(write)
    assert len(childs) == 100
    assert not childs & {ids.new() for _ in range(100)}


def test_two_sources_do_not_collide() -> None:
    one, two = IdSource(SystemClock()), IdSource(SystemClock())
    made = [source.new() for _ in range(2000) for source in (one, two)]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "text", ["", "x", "8" + "0" * 25, "0" * 27, "0" * 25 + "w", "0" * 25 + "\n"]
)
def test_what_is_not_an_id_is_told(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("250ms", 0.25)]
    + [(5, 5), (0.5, 0.5), ("1.5 h", 5400), ("1w", 604800)],
)
def test_durations_are_read_as_people_write_them(text: Duration, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "wrong", ["", "ten", "10", "10x", "-5s", -1, True, "5s5", float("nan"), float("inf"), "1e9d"]
)
def test_a_wrong_duration_is_refused_by_name(wrong: Duration) -> None:
    with pytest.raises(InvalidOption, match="timeout is"):
        duration(wrong, what="timeout")


def test_durations_are_spoken() -> None:
    assert spoken(timedelta(seconds=1.5)) == "1.5s"
    assert spoken(timedelta(hours=26, minutes=3)) == "1d 2h"


@given(
    st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(1, 2**31)), unique=True, max_size=20)
)
def test_the_digest_of_what_is_held_does_not_depend_on_the_order(
    held: list[tuple[int, int]],
) -> None:
    pairs = [(f"{n:026x}"[-26:], token) for n, token in held]
    whole = digest(pairs)
    assert whole == digest(reversed(pairs))
    kept = Digest()
    for pair in pairs:
        kept = kept + digest([pair])
    assert kept == whole
    for pair in pairs:
        kept = kept - digest([pair])
    assert kept == Digest()


def test_the_digest_sees_another_token() -> None:
    job = "0" * 26
    assert digest([(job, 1)]) != digest([(job, 2)])


def test_a_priority_is_worth_a_minute_of_waiting() -> None:
    assert sort_key(60_000_000, 1) == sort_key(0, 0)


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 101, "ü"])
def test_wrong_queue_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="queue"):
        checked_name(name)


@pytest.mark.parametrize("level", [1001, -1001, 1.5, True, "high"])
def test_wrong_priorities_are_refused(level: int) -> None:
    with pytest.raises(InvalidOption, match="priority"):
        priority_level(level)


def test_retention_is_for_final_states_only() -> None:
    assert kept_for({"failed": "2d"})[State.FAILED] == timedelta(days=2)
    assert kept_for(None)[State.SUCCEEDED] == timedelta(days=1)
    assert kept_for(None)[State.FAILED] == timedelta(days=30)
    with pytest.raises(InvalidOption, match="running"):
        kept_for({"running": "1d"})


def test_exponential_backoff_doubles_up_to_its_cap() -> None:
    policy = Retry(attempts=10, delay="1s", cap="10s", jitter=0)
    waits = [wait_before_retry(policy, failures, 0.5) for failures in range(1, 11)]
    seconds = [each.total_seconds() if each is not None else None for each in waits]
    assert seconds == [1, 2, 4, 8, 10, 10, 10, 10, 10, None]


def test_fixed_and_listed_backoff() -> None:
    fixed = Retry(attempts=3, backoff="fixed", delay="5s", jitter=0)
    assert wait_before_retry(fixed, 2, 0) == timedelta(seconds=5)
    listed = Retry(attempts=5, backoff=["1s", "1m"], jitter=0)
    assert [wait_before_retry(listed, n, 0) for n in (1, 2, 3)] == [
        timedelta(seconds=1),
        timedelta(minutes=1),
        timedelta(minutes=1),
    ]


@given(st.integers(1, 4), st.floats(0, 1), st.floats(0, 1))
def test_jitter_stays_within_its_share(failures: int, jitter: float, chance: float) -> None:
    plain = wait_before_retry(Retry(jitter=0), failures, 0)
    spread = wait_before_retry(Retry(jitter=jitter), failures, chance)
    assert plain is not None
    assert spread is not None
    slack = timedelta(microseconds=2)
    assert plain * (1 - jitter) - slack <= spread <= plain * (1 + jitter) + slack


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"attempts": 1.5}, {"jitter": 2}, {"backoff": "linear"}, {"backoff": []}]
    + [{"delay": "soon"}],
)
def test_wrong_retry_policies_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        Retry(**wrong)  # type: ignore[arg-type]


def test_no_move_leaves_a_final_state_but_reopening() -> None:
    leaving = {arrow.move for arrow in TABLE if arrow.source in FINAL}
    assert leaving == {Move.REOPEN}


def test_every_state_can_be_reached_and_left() -> None:
    assert {arrow.target for arrow in TABLE} == set(State)
    assert {arrow.source for arrow in TABLE if arrow.source} == set(State)
    assert allows(Move.CLAIM, State.READY, State.RUNNING)
    assert not allows(Move.CLAIM, State.SCHEDULED, State.RUNNING)
    assert all(f" {state}" in chart() for state in State)


def test_what_never_started_or_is_not_charged_costs_nothing() -> None:
    for changes in ({"begun": False}, {"charged": False}):
        after = after_loss(
            Counters(1, 9, 2),
            begun=changes.get("begun", True),
            charged=changes.get("charged", True),
            alone=True,
            last_run=False,
            has_orphan_hook=False,
        )
        assert after.target is State.READY
        assert after.counters == Counters(1, 9, 2)
        assert not after.suspect


def test_a_job_that_died_in_company_is_a_suspect_without_a_strike() -> None:
    after = after_loss(
        Counters(), begun=True, charged=True, alone=False, last_run=False, has_orphan_hook=False
    )
    assert after.counters == Counters(0, 1, 0)
    assert after.suspect


@pytest.mark.parametrize(
    ("before", "alone", "capped"),
    [
        (Counters(0, MOST_ORPHANS - 1, 0), None, "orphans"),
        (Counters(0, 2, MOST_STRIKES - 1), True, "strikes"),
    ],
)
def test_at_a_cap_the_job_fails_after_one_last_run_of_its_hook(
    before: Counters, alone: bool | None, capped: str
) -> None:
    facts = {"begun": True, "charged": True, "alone": alone}
    plain = after_loss(before, **facts, last_run=False, has_orphan_hook=False)  # type: ignore[arg-type]
    assert (plain.target, plain.capped) == (State.FAILED, capped)
    hooked = after_loss(before, **facts, last_run=False, has_orphan_hook=True)  # type: ignore[arg-type]
    assert (hooked.target, hooked.last_run) == (State.READY, True)
    ended = after_loss(hooked.counters, **facts, last_run=True, has_orphan_hook=True)  # type: ignore[arg-type]
    assert ended.target is State.FAILED


SAMPLES: dict[type, object] = {int: 3, float: 1.5, str: "x"}


def sample(kind: type[Cause]) -> Cause:
    values = {}
    for name, hint in kind.__init__.__annotations__.items():
        if name != "return":
            values[name] = SAMPLES.get(hint, 3)
    return kind(**values)


@pytest.mark.parametrize("kind", Cause.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_cause_survives_the_timeline_and_says_a_sentence(kind: type[Cause]) -> None:
    cause = sample(kind)
    assert cause.sentence()
    assert "None" not in cause.sentence()
    if kind is not Unknown:
        assert cause_of(cause.record()) == cause
        assert cause_of(cause.record()).sentence() == cause.sentence()


def test_a_cause_of_a_newer_version_keeps_its_words() -> None:
    record = {"kind": "EatenByBear", "text": "a bear ate it", "bear": "brown"}
    assert str(cause_of(record)) == "a bear ate it"
    assert str(cause_of({"kind": "WorkerVanished", "text": "other fields"})) == "other fields"
    assert isinstance(cause_of(WorkerVanished(last_seen=1).record()), WorkerVanished)


@pytest.mark.parametrize("number", [10**30, -(10**30), 2**53 + 1, float("inf"), float("nan")])
def test_a_cause_with_a_number_that_cannot_travel_keeps_its_words(number: float) -> None:
    kind, fact = ("ExecutorExited", "code") if isinstance(number, int) else ("TimedOut", "seconds")
    found = cause_of({"kind": kind, fact: number, "text": "it ended"})
    assert found == Unknown(was=kind, text="it ended")
    assert cause_of({"kind": kind, fact: 77, "text": ""}) != Unknown(was=kind, text="")


def test_secrets_are_masked_at_any_depth() -> None:
    args = {"a": {"b": [{"c/d": "secret"}, 2]}, "e": "secret", "f": 1}
    shown = masked(args, ("a/b/0/c~1d", "e"))
    assert shown == {"a": {"b": [{"c/d": "***"}, 2]}, "e": "***", "f": 1}
    assert args["e"] == "secret"
