"""A breaker opens on a share of failures, tries again after a while, closes on a success."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.breaker import (
    BreakerRules,
    BreakerState,
    BreakerStatus,
    Observed,
    observed,
    tried,
)

SECOND = 1_000_000
NOW = 1_893_456_000_000_000
CLOSED, OPEN, PROBING = BreakerState
RULES = BreakerRules("crm", frozenset({"send"}), 0.5, 4, 60 * SECOND, 10 * SECOND)
NEW = BreakerStatus(RULES, CLOSED, 0, 0, NOW, None, None)


TRIES = (("slow", 1), ("probe", 7))
TRYING = BreakerStatus(RULES, PROBING, 0, 0, NOW, NOW, NOW + 10 * SECOND, TRIES)


def saw(succeeded: int = 0, failed: int = 0, *attempts: tuple[str, int, bool]) -> Observed:
    return Observed("crm", succeeded, failed, attempts)


@pytest.mark.parametrize(
    ("succeeded", "failed", "state"),
    [(0, 3, CLOSED), (0, 4, OPEN), (2, 2, OPEN), (3, 2, CLOSED), (99, 98, CLOSED), (0, 0, CLOSED)],
)
def test_it_opens_at_its_share_of_enough_attempts(
    succeeded: int, failed: int, state: BreakerState
) -> None:
    after = observed(NEW, saw(succeeded, failed), NOW + 1)
    assert after.state is state
    if state is OPEN:
        assert (after.opened_at, after.probe_at) == (NOW + 1, NOW + 1 + 10 * SECOND)
        assert (after.succeeded, after.failed) == (0, 0)
    else:
        assert (after.succeeded, after.failed, after.window_at) == (succeeded, failed, NOW)


def test_attempts_of_one_window_are_counted_together() -> None:
    first = observed(NEW, saw(failed=3), NOW)
    assert observed(first, saw(failed=1), NOW + 60 * SECOND - 1).state is OPEN


def test_attempts_of_an_old_window_are_forgotten() -> None:
    first = observed(NEW, saw(failed=3), NOW)
    after = observed(first, saw(failed=1), NOW + 60 * SECOND)
    assert (after.state, after.failed, after.window_at) == (CLOSED, 1, NOW + 60 * SECOND)


def test_success_of_a_try_closes_it_whatever_else_was_seen() -> None:
    seen = saw(1, 5, ("probe", 7, True), ("slow", 1, False), ("early", 1, False))
    after = observed(TRYING, seen, NOW + 3)
    assert after == BreakerStatus(RULES, CLOSED, 0, 0, NOW + 3, None, None)


@pytest.mark.parametrize("seen", [(1, 0), (0, 1), (3, 5)])
def test_what_was_under_way_when_it_opened_neither_closes_it_nor_puts_the_try_off(
    seen: tuple[int, int],
) -> None:
    before = BreakerStatus(RULES, OPEN, 0, 0, NOW, NOW, NOW + 10 * SECOND)
    assert observed(before, saw(*seen), NOW + 3) == before


@pytest.mark.parametrize("state", [OPEN, PROBING])
@pytest.mark.parametrize("attempt", [("early", 7), ("probe", 6)])
@pytest.mark.parametrize("succeeded", [True, False])
def test_attempt_that_is_no_try_changes_nothing(
    state: BreakerState, attempt: tuple[str, int], succeeded: bool
) -> None:
    before = replace(TRYING, state=state)
    seen = saw(int(succeeded), int(not succeeded), (*attempt, succeeded))
    assert observed(before, seen, NOW + 3) == before


def test_failure_of_a_try_puts_the_next_one_off() -> None:
    after = observed(TRYING, saw(0, 1, ("probe", 7, False)), NOW + 3)
    assert (after.state, after.opened_at, after.probe_at) == (OPEN, NOW, NOW + 3 + 10 * SECOND)
    assert after.tries == TRIES[:1]


def test_slow_try_closes_it_though_another_failed_meanwhile() -> None:
    failed = observed(TRYING, saw(0, 1, ("probe", 7, False)), NOW + 3)
    assert observed(failed, saw(1, 0, ("slow", 1, True)), NOW + 4).state is CLOSED


def test_try_is_noted() -> None:
    after = tried(replace(TRYING, state=OPEN, tries=()), ("job", 3), NOW + 5)
    assert (after.state, after.probe_at) == (PROBING, NOW + 5 + 10 * SECOND)
    assert after.tries == (("job", 3),)


@pytest.mark.parametrize("state", BreakerState)
def test_nothing_seen_changes_nothing_of_its_state(state: BreakerState) -> None:
    before = replace(NEW, state=state)
    assert observed(before, saw(), NOW).state is state


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 90)), max_size=30))
def test_it_is_closed_or_knows_when_to_try(seen: list[tuple[int, int, int]]) -> None:
    breaker, now = NEW, NOW
    for succeeded, failed, seconds in seen:
        now += seconds * SECOND
        breaker = observed(breaker, saw(succeeded, failed), now)
        if breaker.state is CLOSED:
            assert (breaker.opened_at, breaker.probe_at) == (None, None)
            ended = breaker.succeeded + breaker.failed
            assert ended < RULES.least or breaker.failed < RULES.failure_rate * ended
        else:
            assert breaker.opened_at is not None
            assert breaker.probe_at is not None
            assert breaker.opened_at < breaker.probe_at <= now + RULES.probe_after
