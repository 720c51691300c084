"""Rules of a job are kept as little JSON as they need, and read back as they were."""

import json

from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import NO_RULES, ChildFailure, Rules, UniqueUntil, rules_of

RATES = st.none() | st.builds(Rate, st.integers(1, 99), st.integers(99, 10**9), st.integers(1, 9))
ANY_RULES = st.builds(
    Rules,
    key_limit=st.integers(1, 9),
    key_rate=RATES,
    key_strict=st.booleans(),
    unique_until=st.sampled_from(UniqueUntil),
    unique_for=st.none() | st.integers(1, 10**12),
    replaces=st.booleans(),
    children=st.integers(0, 10**6),
    child_failure=st.sampled_from(ChildFailure),
)
ANY_QUEUE_RULES = st.builds(
    QueueRules, st.none() | st.integers(1, 9), RATES, st.none() | st.integers(1, 9)
)


@given(ANY_RULES)
def test_rules_read_back_as_they_were_written(rules: Rules) -> None:
    read = rules_of(json.loads(json.dumps(rules.record())))
    assert read == rules
    assert [type(each) for each in read] == [type(each) for each in rules]


def test_rules_that_say_nothing_are_kept_as_nothing() -> None:
    assert NO_RULES.record() == {}
    assert rules_of({}) == NO_RULES
    assert Rules(children=3).record() == {"children": 3}


def test_rule_of_a_newer_version_is_passed_over() -> None:
    assert rules_of({"children": 2, "moon_phase": "full"}) == Rules(children=2)


@given(ANY_QUEUE_RULES, ANY_QUEUE_RULES)
def test_rules_set_at_run_time_stand_where_they_say_something(
    adjusted: QueueRules, declared: QueueRules
) -> None:
    over = adjusted.over(declared)
    for here, above, below in zip(over, adjusted, declared, strict=True):
        assert here == (below if above is None else above)
    assert NO_QUEUE_RULES.over(declared) == declared
    assert adjusted.over(NO_QUEUE_RULES) == adjusted
