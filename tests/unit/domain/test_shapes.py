"""What users type for keys, uniqueness, rates and queues, before any store hears of it."""

import pytest

from limpet import InvalidOption, QueueLimit, State, Unique
from limpet.app.options import JobOptions
from limpet.domain.queue import QueueRules, queue_rules
from limpet.domain.rate import Rate, rate_of
from limpet.domain.rules import Rules, UniqueUntil

MINUTE = 60_000_000


def shape(**options: object) -> tuple[object, ...]:
    made = JobOptions().changed(options).shape()
    assert made is not None
    return tuple(made)


def test_a_job_that_names_nothing_of_it_asks_nothing_of_the_store() -> None:
    assert JobOptions().changed({"priority": 1, "delay": "5s"}).shape() is None


def test_a_key_alone_needs_no_rules() -> None:
    assert shape(key="customer:42") == ("customer:42", None, None)


def test_what_is_said_of_a_key_becomes_its_rules() -> None:
    rules = Rules(key_limit=2, key_rate=Rate(10, MINUTE, 1), key_strict=True)
    assert shape(key="a", key_limit=2, key_rate="10/m", key_order="strict") == ("a", None, rules)
    assert shape(key="a", key_limit=1, key_order="free") == ("a", None, None)


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ("a", None),
        (Unique("a"), None),
        (Unique("a", until="finished", on_conflict="drop"), None),
        (Unique("a", until="started"), Rules(unique_until=UniqueUntil.STARTED)),
        (Unique("a", "10m"), Rules(unique_until=UniqueUntil.TIME, unique_for=10 * MINUTE)),
        (
            Unique("a", on_conflict="replace"),
            Rules(unique_until=UniqueUntil.STARTED, replaces=True),
        ),
    ],
)
def test_what_is_said_of_being_unique_becomes_its_rules(given: object, rules: object) -> None:
    assert shape(unique=given) == (None, "a", rules)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": ""}, "key is ''"),
        ({"key": 42}, "key is 42"),
        ({"key": "a\nb"}, "printable"),
        ({"key": "k" * 201}, "1 to 200 printable characters"),
        ({"key": "\ud800"}, "printable"),
        ({"key": "a", "key_limit": 0}, "key_limit is 0"),
        ({"key": "a", "key_limit": True}, "key_limit is True"),
        ({"key": "a", "key_rate": "often"}, "key_rate is 'often'"),
        ({"key": "a", "key_rate": "0/m"}, "key_rate is '0/m'"),
        ({"key": "a", "key_order": "loose"}, "key_order is 'loose'"),
        ({"key_limit": 2}, "key_limit is 2, but the job has no key"),
        ({"key_rate": "10/m"}, "key_rate is '10/m', but the job has no key"),
        ({"key_order": "strict"}, "key_order is 'strict', but the job has no key"),
        ({"unique": ""}, "unique is ''"),
        ({"unique": "u" * 201}, "unique is 'uuuuuuuuuuuuuuuuuuuu'…"),
        ({"unique": 7}, "unique is 7"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        JobOptions().changed(options).shape()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"until": "soon"}, "Unique: until"),
        ({"until": "0s"}, "longer than 0"),
        ({"on_conflict": "ignore"}, "on_conflict is 'ignore'"),
        ({"until": "finished", "on_conflict": "replace"}, "cannot be kept with on_conflict"),
        ({"until": "10m", "on_conflict": "replace"}, "cannot be kept with on_conflict"),
    ],
)
def test_a_unique_that_cannot_be_kept_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        Unique("a", **options)  # type: ignore[arg-type]


def test_a_task_says_how_its_keys_are_limited_and_each_job_names_its_key() -> None:
    task = JobOptions().changed({"key_limit": 3})
    made = task.changed({"key": "a"}).shape()
    assert made is not None
    assert made.rules == Rules(key_limit=3)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5/s", Rate(5, 1_000_000, 1)),
        ("100/m", Rate(100, MINUTE, 1)),
        ("100/m bursty", Rate(100, MINUTE, 100)),
        ("20/10m", Rate(20, 10 * MINUTE, 1)),
        (" 20 / 10m  bursty ", Rate(20, 10 * MINUTE, 20)),
        ("100/s", Rate(100, 1_000_000, 10)),
    ],
)
def test_a_rate_is_read_as_people_write_it_and_said_the_same_way(text: str, rate: Rate) -> None:
    assert rate_of(text) == rate
    assert rate_of(rate) is rate
    assert rate_of(str(rate)) == rate


@pytest.mark.parametrize("text", ["", "5", "/m", "5/", "5/x", "bursty", "5/mbursty", "-1/m", 5])
def test_a_wrong_rate_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidOption, match="queue 'a': rate is"):
        rate_of(text, what="queue 'a': rate")


def test_an_app_says_of_a_queue_as_much_as_it_wants() -> None:
    limit = QueueLimit(concurrency=5, rate="100/m", weight=3, retention={"succeeded": "1h"})
    assert limit.cap is None
    assert limit.rules == QueueRules(5, Rate(100, MINUTE, 1), 3) == queue_rules(5, "100/m", 3)
    assert {state: kept.total_seconds() for state, kept in limit.retention.items()} == {
        State.SUCCEEDED: 3600
    }
    assert QueueLimit(7).cap == 7
    assert QueueLimit(7).rules == QueueRules()
    assert hash(limit) == hash(QueueLimit(concurrency=5, rate="100/m", weight=3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cap": 0}, "cap is 0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 2.5}, "concurrency is 2.5"),
        ({"weight": 0}, "weight is 0"),
        ({"weight": 1001}, "from 1 to 1,000"),
        ({"rate": "fast"}, "QueueLimit: rate is 'fast'"),
        ({"when_full": "wait", "concurrency": 1}, "give it one: cap="),
        ({"cap": 1, "when_full": "drop"}, "when_full='drop'"),
        ({"retention": {"ready": "1h"}}, "only finished jobs are pruned"),
    ],
)
def test_a_queue_limit_that_makes_no_sense_is_refused(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        QueueLimit(**options)  # type: ignore[arg-type]
