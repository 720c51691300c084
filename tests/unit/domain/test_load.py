"""A load that rises is seen at once, and one that falls is believed slowly."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limpet.domain.errors import InvalidOption
from limpet.domain.load import USUAL_SMOOTHING, Load, Smoothing, loaded

CORES = st.floats(0.05, 512)
# Below the least normal number nothing is a share of anything.
SHARES = st.floats(0, 1, allow_subnormal=False)
FACTORS = st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(
    lambda pair: Smoothing(rise=max(pair), fall=min(pair))
)


def after(samples: list[float], cores: float, smoothing: Smoothing = USUAL_SMOOTHING) -> Load:
    load: Load | None = None
    for sample in samples:
        load = loaded(load, sample, cores, smoothing)
    assert load is not None
    return load


@given(CORES, SHARES, SHARES)
def test_it_rises_within_two_samples(cores: float, share: float, higher: float) -> None:
    low, high = sorted((100 * cores * share, 100 * cores * higher))
    assert after([low, high], cores).effective == high
    assert after([low, high, high], cores).smoothed >= low + 0.9 * (high - low) - 1e-9 * high


@given(CORES, SHARES, SHARES, FACTORS, st.integers(1, 60))
def test_it_falls_as_configured(
    cores: float, share: float, lower: float, smoothing: Smoothing, samples: int
) -> None:
    low, high = sorted((100 * cores * share, 100 * cores * lower))
    expected = low + (high - low) * (1 - smoothing.fall) ** samples
    fallen = after([high] + [low] * samples, cores, smoothing).smoothed
    assert fallen == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    CORES,
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=50),
    FACTORS,
)
def test_it_stays_within_what_the_cores_can_do(
    cores: float, samples: list[float], smoothing: Smoothing
) -> None:
    load = after(samples, cores, smoothing)
    for part in (load.raw, load.smoothed, load.effective):
        assert 0 <= part <= 100 * cores


@given(CORES, st.lists(SHARES, min_size=2, max_size=50), FACTORS)
def test_it_never_leaves_the_span_of_its_samples(
    cores: float, shares: list[float], smoothing: Smoothing
) -> None:
    samples = [100 * cores * share for share in shares]
    assert min(samples) <= after(samples, cores, smoothing).smoothed <= max(samples)


@given(SHARES, SHARES)
def test_a_dip_of_a_second_is_not_room(before: float, dip: float) -> None:
    assume(dip < before)
    busy = after([200 * before] * 5 + [200 * dip], 2)
    assert busy.effective >= 0.9 * 200 * before - 1e-9


def test_a_limit_that_shrinks_bounds_what_was_smoothed_before() -> None:
    wide = after([800.0], 8)
    assert loaded(wide, 100.0, 1, USUAL_SMOOTHING).smoothed == 100.0


@pytest.mark.parametrize(
    ("rise", "fall"), [(0, 0.1), (1.1, 0.1), (0.5, 0), (0.2, 0.5), (float("nan"), 0.1)]
)
def test_factors_that_cannot_be_are_refused(rise: float, fall: float) -> None:
    with pytest.raises(InvalidOption):
        Smoothing(rise, fall)
