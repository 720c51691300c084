"""Breakers as an app defines them, and what a worker counts for them."""

from typing import Any

import pytest

from limpet import App, Breaker, InvalidOption
from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import (
    Cause,
    DeadlinePassed,
    Drained,
    ExecutorExited,
    Raised,
    Stalled,
    TimedOut,
)
from limpet.domain.lease import Lease
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.worker.supervisor.breaker_observer import Observer

LEASE = Lease("job", "s", 1)
ERROR = Raised("ValueError", "x")


def work() -> None: ...


@pytest.fixture
def app() -> App:
    return App("sqlite://")


def names(app: App) -> dict[str, frozenset[str]]:
    return {each.name: each.tasks for each in app.registry.breaker_rules}


def test_tasks_share_a_breaker_by_its_name_and_have_their_own_without_one(app: App) -> None:
    app.task(name="charge", breaker="stripe")(work)
    app.breaker("stripe", failure_rate=0.2, least=5, window="30s", probe_after="10s")
    app.task(name="refund", breaker=app.breaker("bank"))(work)
    app.task(name="alone", breaker=Breaker())(work)
    app.task(name="free")(work)
    assert names(app) == {"alone": {"alone"}, "bank": {"refund"}, "stripe": {"charge"}}
    found = {each.name: each for each in app.registry.breaker_rules}
    assert found["stripe"] == BreakerRules(
        "stripe", frozenset({"charge"}), 0.2, 5, 30_000_000, 10_000_000
    )


def test_one_definition_said_twice_is_one(app: App) -> None:
    app.task(name="a", breaker=Breaker("api", least=3))(work)
    app.task(name="b", breaker=Breaker("api", least=3))(work)
    assert names(app) == {"api": {"a", "b"}}


def test_two_definitions_of_one_name_are_refused(app: App) -> None:
    app.breaker("api", least=3)
    with pytest.raises(InvalidOption, match="breaker 'api' is defined twice, and not alike"):
        app.task(name="a", breaker=Breaker("api", least=4))(work)
    assert "a" not in app.tasks


def test_a_name_that_is_nowhere_defined_is_told_with_its_task(app: App) -> None:
    app.task(name="charge", breaker="stripe")(work)
    with pytest.raises(InvalidOption, match="'charge' names the breaker 'stripe', which is not"):
        app.registry.breaker_rules  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"failure_rate": 0}, "above 0 and up to 1"),
        ({"failure_rate": 1.5}, "above 0 and up to 1"),
        ({"failure_rate": True}, "above 0 and up to 1"),
        ({"least": 0}, "from 1 up"),
        ({"window": 0}, "longer than 0"),
        ({"probe_after": "soon"}, "probe_after"),
        ({"name": "a b"}, "a name has"),
    ],
)
def test_a_breaker_that_cannot_be_meant_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Breaker(**wrong)


def test_anything_else_as_a_breaker_is_refused(app: App) -> None:
    with pytest.raises(InvalidOption, match=r"write limpet.Breaker"):
        app.task(name="a", breaker=5)(work)  # type: ignore[call-overload]


ENDS: list[tuple[Settlement, tuple[int, int]]] = [
    (Complete(LEASE), (1, 0)),
    (RetryAt(LEASE, 1, ERROR), (0, 1)),
    (Fail(LEASE, ERROR), (0, 1)),
    (Fail(LEASE, TimedOut(1.0)), (0, 1)),
    (RetryAt(LEASE, 1, Stalled(1.0)), (0, 1)),
    (Orphan(LEASE, ExecutorExited(3), begun=True, alone=True), (0, 1)),
    (Orphan(LEASE, ExecutorExited(3), begun=True, alone=False), (0, 0)),
    (Fail(LEASE, DeadlinePassed(1)), (0, 0)),
    (Quarantine(LEASE, ERROR), (0, 0)),
    (SnoozeUntil(LEASE, 1), (0, 0)),
    (Release(LEASE, Drained()), (0, 0)),
    (Cancel(LEASE), (0, 0)),
    (AwaitChildren(LEASE, "flow", 1, 1), (0, 0)),
]


def _named(value: object) -> str:
    if isinstance(value, tuple) and not hasattr(value, "lease"):
        return "-".join(map(str, value))
    cause: Cause | None = getattr(value, "error", None)
    return type(value).__name__ + (f"-{cause.kind}" if cause else "")


@pytest.mark.parametrize(("end", "counted"), ENDS, ids=_named)
def test_what_succeeded_or_failed_is_counted_and_nothing_else(
    end: Settlement, counted: tuple[int, int]
) -> None:
    observer = Observer()
    observer.watch([BreakerRules("api", frozenset({"t"}), 0.5, 1, 1, 1)])
    observer.ended("t", end)
    observer.ended("another", end)
    attempts = ((LEASE.job, LEASE.token, counted == (1, 0)),)
    assert observer.take() == ((Observed("api", *counted, attempts),) if any(counted) else ())
    assert observer.take() == ()
