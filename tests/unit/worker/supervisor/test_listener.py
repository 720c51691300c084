"""The children of a job, on a store in memory: staged under its token, read as their tasks say."""

from collections.abc import Iterator
from typing import Any

import pytest

from limpet import App, Breaker, Flow, LimpetError, QueueLimit, Result, State
from limpet.domain.errors import FanOut, Snooze
from limpet.domain.rules import ChildFailure
from limpet.worker.executor import fan_out
from limpet.worker.executor.registry import Registry
from limpet.worker.wire.frames import FROM_ZYGOTE, CatalogFrame, pack


@pytest.fixture
def app() -> Iterator[App]:
    made = App("sqlite://")
    made.task(name="leaf")(leaf)
    yield made
    made.close()


def leaf(number: int) -> Result[int]:
    return Result(number)


class Staged:
    """Stands for the store: keeps what is staged."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.parts: dict[tuple[str, int], list[Any]] = {}

    def stage(self, flow: str, place: int, jobs: list[Any]) -> None:
        self.parts[flow, place] = jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def staged(app: App, fan: FanOut) -> tuple[str, tuple[str, int, int], list[list[Any]]]:
    parent = app.find("leaf").enqueue(0).id
    store = Staged(app.client.store)
    app.client.store = store  # type: ignore[assignment]
    answer = fan_out.stage(app, parent, fan)
    parts = [store.parts[answer[0], place] for place in range(answer[1])]
    assert len(parts) == len(store.parts)
    return parent, answer, parts


def test_many_children_are_staged_in_parts_each_with_its_parent(app: App) -> None:
    task = app.find("leaf")
    fan = FanOut([task.call(number) for number in range(2_001)], failed="skip")
    parent, (flow, chunks, count), parts = staged(app, fan)
    assert (chunks, count) == (3, 2_001)
    assert [len(part) for part in parts] == [1_000, 1_000, 1]
    jobs = [job for part in parts for job in part]
    assert {(job.parent, job.root) for job in jobs} == {(parent, parent)}
    assert {job.rules.child_failure for job in jobs} == {ChildFailure.SKIP}
    assert len({job.id for job in jobs} | {flow}) == 2_002


def test_flows_among_them_count_as_one_child_each(app: App) -> None:
    task = app.find("leaf")
    fan = FanOut([Flow(task.call(1), [task.call(2), task.call(3)]), task.call(4)])
    parent, (_, chunks, count), ((top, other, *below),) = staged(app, fan)
    assert (chunks, count) == (1, 2)
    assert (top.parent, other.parent, top.rules.children) == (parent, parent, 2)
    assert {job.parent for job in below} == {top.id}
    assert {job.root for job in (top, other, *below)} == {parent}


def test_each_attempt_has_a_flow_of_its_own(app: App) -> None:
    fan = FanOut([app.find("leaf").call(1)])
    assert staged(app, fan)[1][0] != staged(app, fan)[1][0]


@pytest.mark.parametrize("wrap", [False, True])
def test_a_wish_to_fan_out_does_not_hide_a_failure(wrap: bool) -> None:
    fan = FanOut(["a"])
    alone: BaseException = BaseExceptionGroup("one", [fan]) if wrap else fan
    assert fan_out.fan_out_of(alone) is fan
    assert fan_out.fan_out_of(BaseExceptionGroup("two", [fan, ValueError()])) is None
    assert fan_out.fan_out_of(Snooze(1)) is None


# -- what the supervisor hears of the app


def test_the_supervisor_hears_what_the_app_says_of_queues_and_breakers() -> None:
    app = App(
        "sqlite://",
        queues={
            "slow": QueueLimit(rate="5/s", concurrency=2),
            "heavy": QueueLimit(weight=3, retention={"succeeded": "1h"}),
            "capped": QueueLimit(10),
        },
    )
    app.task(name="leaf", breaker=Breaker("api"))(leaf)
    said = Registry(app).catalog(1, contained=False)
    frame = FROM_ZYGOTE.decode(pack(CatalogFrame(said))[8:])
    assert isinstance(frame, CatalogFrame)
    heard = frame.catalog
    assert heard == said
    assert heard.bounded() == ["slow"]
    assert set(heard.queues) == {"slow", "heavy", "capped"}
    retention, by_queue = heard.retentions()
    assert retention == app.retention
    assert by_queue == {
        "heavy": {State.SUCCEEDED: app.registry.queue_retention["heavy"][State.SUCCEEDED]}
    }
    app.close()


def test_a_breaker_that_is_nowhere_defined_stops_the_worker_at_its_start() -> None:
    app = App("sqlite://")
    app.task(name="leaf", breaker="stripe")(leaf)
    with pytest.raises(LimpetError, match="'stripe', which is not defined"):
        Registry(app)
    app.close()
