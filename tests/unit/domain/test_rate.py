"""A rate is never exceeded in any window, and what is said of the next moment is true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, rate_of

SECOND = 1_000_000
START = 1_893_456_000_000_000

RATES = st.builds(
    lambda count, period, burst: Rate(count, max(period, count), burst),
    st.integers(1, 1_000),
    st.integers(1, 3_600 * SECOND),
    st.integers(1, 1_000),
)
# How long until somebody asks again, and for how many.
ASKED = st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(0, 50)), max_size=60)


def begun(rate: Rate, asked: list[tuple[int, int]]) -> list[int]:
    """When jobs began that were asked for so."""
    starts: list[int] = []
    now, given_until = START, 0
    for wait, wanted in asked:
        now += wait
        taken = min(wanted, rate.allowed(given_until, now))
        given_until = rate.taken(given_until, now, taken) if taken else given_until
        starts += [now] * taken
    return starts


@given(RATES, ASKED)
def test_in_no_window_do_more_begin_than_its_share_and_the_burst(
    rate: Rate, asked: list[tuple[int, int]]
) -> None:
    starts = begun(rate, asked)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            window = starts[last] - starts[first]
            assert last - first + 1 <= rate.burst + window // rate.step_us
            assert (last - first + 1 - rate.burst) * rate.period_us <= rate.count * window


@given(RATES, st.integers(0, 10**12), st.integers(0, 100))
def test_room_is_what_can_be_taken_one_by_one(rate: Rate, ahead: int, back: int) -> None:
    given_until = max(0, START + ahead - back * SECOND)
    room = rate.allowed(given_until, START)
    assert room <= rate.burst
    one_by_one = 0
    until = given_until
    while rate.allowed(until, START) >= 1:
        until = rate.taken(until, START, 1)
        one_by_one += 1
    assert one_by_one == max(0, room)
    if room > 0:
        assert until == rate.taken(given_until, START, room)


@given(RATES, st.integers(0, 10**12))
def test_next_moment_is_the_first_with_room(rate: Rate, ahead: int) -> None:
    given_until = START + ahead
    at = rate.next_at(given_until, START)
    assert at >= START
    assert rate.allowed(given_until, at) >= 1
    assert at == START or rate.allowed(given_until, at - 1) < 1


@given(RATES)
def test_unused_rate_has_its_burst_and_saves_up_no_more(rate: Rate) -> None:
    assert rate.allowed(0, START) == rate.burst
    until = rate.taken(0, START, rate.burst)
    assert rate.allowed(until, START) == 0
    assert rate.allowed(until, START + 100 * rate.burst * rate.step_us) == rate.burst


@given(RATES, st.integers(1, 200))
def test_who_asks_when_it_was_told_to_gets_the_full_rate(rate: Rate, jobs: int) -> None:
    now, given_until = START, 0
    for _ in range(rate.burst + jobs):
        now = rate.next_at(given_until, now)
        given_until = rate.taken(given_until, now, 1)
    # A step is rounded up to a whole microsecond, so that it is a little less and never more.
    exact = jobs * rate.period_us / rate.count
    assert exact <= now - START <= exact + jobs


@pytest.mark.parametrize(
    ("text", "count", "period"),
    [
        ("5/s", 5, SECOND),
        ("100/m", 100, 60 * SECOND),
        ("1/h", 1, 3_600 * SECOND),
        ("20/10m", 20, 600 * SECOND),
        (" 3 / 2s ", 3, 2 * SECOND),
        ("1000000/s", 1_000_000, SECOND),
    ],
)
def test_text_is_read(text: str, count: int, period: int) -> None:
    rate = rate_of(text)
    assert (rate.count, rate.period_us) == (count, period)
    assert rate_of(str(rate)) == rate


def test_smooth_rate_lets_little_begin_at_once_and_a_bursty_one_all() -> None:
    assert rate_of("5/s").burst == 1
    assert rate_of("50/s").burst == 5
    assert rate_of("100/m", bursty=True).burst == 100


@pytest.mark.parametrize(
    "text", ["", "5", "/s", "0/s", "-1/s", "5/x", "5/0s", "1.5/s", "1000001/s", "5 per s", None, 5]
)
def test_text_that_is_no_rate_is_refused_with_what_to_write(text: object) -> None:
    with pytest.raises(InvalidOption, match="rate of queue 'a' is .*; write how many"):
        rate_of(text, what="rate of queue 'a'")  # type: ignore[arg-type]
