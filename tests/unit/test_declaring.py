"""What a worker tells the store of the breakers of its app."""

from limpet.domain.breaker import Breaker, BreakerRules, BreakerState
from limpet.worker.declaring import breakers_to_declare


def rules(name: str, *tasks: str) -> BreakerRules:
    return BreakerRules(name, frozenset(tasks), 0.5, 10, 60, 30)


def there(name: str, *tasks: str) -> Breaker:
    return Breaker(rules(name, *tasks), BreakerState.OPEN, 0, 0, 0, 1, 2)


def declared(*known: str, old: list[Breaker], new: list[BreakerRules]) -> list[BreakerRules]:
    return breakers_to_declare(old, new, frozenset(known))


def test_what_is_declared_is_told_as_it_is() -> None:
    assert declared("pay", old=[], new=[rules("bank", "pay")]) == [rules("bank", "pay")]
    assert declared("pay", old=[there("bank", "pay")], new=[]) == [rules("bank")]
    assert declared("pay", old=[], new=[]) == []


def test_a_task_that_left_a_breaker_is_held_back_by_it_no_longer() -> None:
    old = [there("bank", "pay", "refund")]
    assert declared("pay", "refund", old=old, new=[rules("bank", "pay")]) == [rules("bank", "pay")]
    assert declared("pay", "refund", old=old, new=[rules("psp", "pay")]) == [
        rules("psp", "pay"),
        rules("bank"),
    ]


def test_tasks_of_other_apps_stay_behind_a_breaker_of_the_same_name() -> None:
    old = [there("bank", "report"), there("mail", "send")]
    assert declared("pay", old=old, new=[rules("bank", "pay")]) == [rules("bank", "pay", "report")]
