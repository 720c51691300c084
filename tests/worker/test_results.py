"""Tasks run, their arguments arrive as they were given, and their results come back."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import results
from worker.tasks.results import Item, Order, Receipt, Stubborn

from limpet import JobFailed, State, Task
from limpet.domain.cause import Raised

LIMIT = 1024 * 1024
ODD = ("nan", "infinity", "generator", "object", "set", "bytes", "surrogate", "key", "itself")


def test_a_sync_task_gives_its_result(shared: Place) -> None:
    assert results.add.enqueue(2, 3).result(timeout=10) == 5


def test_an_async_task_gives_its_result(shared: Place) -> None:
    assert results.add_async.enqueue(a=2, b=3).result(timeout=10) == 5


def test_an_async_task_runs_in_a_process_of_its_own(shared: Place) -> None:
    assert results.add_in_a_process.enqueue(2, 3).result(timeout=10) == 5


def test_a_task_without_a_result_gives_none(shared: Place) -> None:
    assert results.nothing.enqueue().result(timeout=10) is None
    assert results.nothing_async.enqueue().result(timeout=10) is None


def test_results_can_be_awaited(shared: Place) -> None:
    async def wait() -> int:
        job = await results.add_async.aenqueue(20, 3)
        return await job.aresult(timeout=10)

    assert asyncio.run(wait()) == 23


def test_models_arrive_as_models_and_come_back_as_models(shared: Place) -> None:
    now = datetime.now(UTC)
    order = Order(items=[Item(name="a", price=1.5, added=now), Item(name="b", price=2, added=now)])
    receipt = results.price.enqueue(order).result(timeout=10)
    assert isinstance(receipt, Receipt)
    assert receipt.total == 3.5
    also = results.price_async.enqueue(order, when=now).result(timeout=10)
    assert also == Receipt(total=3.5, at=now)


@pytest.mark.parametrize("task", [results.large, results.large_async], ids=["sync", "async"])
def test_a_result_too_large_fails_at_once_with_the_sentence(
    shared: Place, task: Task[Any, Any]
) -> None:
    fits = task.enqueue(size=LIMIT - 2, path=shared.notes)
    assert len(fits.result(timeout=10)) == LIMIT - 2
    job = task.enqueue(size=LIMIT - 1, path=shared.notes)
    with pytest.raises(JobFailed, match=f"the result of {task.name} is larger than {LIMIT} bytes"):
        job.result(timeout=10)
    assert shared.job(job).counters == (1, 0, 0)
    assert len(notes(shared.notes, "run")) == 2


@pytest.mark.parametrize("task", [results.length, results.length_async], ids=["sync", "async"])
def test_arguments_up_to_the_limit_arrive(shared: Place, task: Task[Any, Any]) -> None:
    text = "ä" * ((LIMIT - 20) // 2)
    assert task.enqueue(text=text).result(timeout=10) == len(text)


@pytest.mark.parametrize("task", [results.fits, results.fits_async], ids=["sync", "async"])
@pytest.mark.parametrize(
    "stored",
    ['{"amount": "many", "path": PATH}', '{"path": PATH}', "[1]", "5", '{"amount": 1}'],
    ids=["wrong type", "one missing", "a list", "a number", "another missing"],
)
def test_a_payload_that_no_longer_fits_is_quarantined_and_never_retried(
    shared: Place, task: Task[Any, Any], stored: str
) -> None:
    job = shared.hand_in(task, stored.replace("PATH", f'"{shared.notes}"'))
    found = shared.until_state(job, State.QUARANTINED)
    assert isinstance(found.error, Raised)
    assert found.error.type == "PayloadInvalid"
    assert task.name in str(found.error)
    assert found.counters == (0, 0, 0)
    assert notes(shared.notes) == []
    assert "retried" not in shared.events(job)


@pytest.mark.parametrize(
    "task", [results.takes_stubborn, results.takes_stubborn_async], ids=["sync", "async"]
)
def test_a_model_whose_validator_breaks_ends_the_job_not_the_executor(
    shared: Place, task: Task[Any, Any]
) -> None:
    assert task.enqueue(model=Stubborn(name="fine")).result(timeout=10) == "fine"
    job = shared.hand_in(task, '{"model": {"name": "broken"}}')
    found = shared.until_state(job, State.QUARANTINED, State.FAILED, seconds=8)
    assert "RuntimeError" in str(found.error)
    assert found.counters.orphans == found.counters.strikes == 0


@pytest.mark.parametrize("task", [results.gives, results.gives_async], ids=["sync", "async"])
def test_a_result_that_json_cannot_hold_fails_once_with_a_sentence(
    shared: Place, task: Task[Any, Any]
) -> None:
    """Running it again would do its work again and not help."""
    jobs = {what: task.enqueue(what, f"{shared.notes}-{what}") for what in ODD}
    until(lambda: all(shared.job(job).counters.failures for job in jobs.values()))
    for what, job in jobs.items():
        found = shared.job(job)
        assert found.state is State.FAILED, f"{what}: {shared.events(job)}"
        assert f"the result of {task.name}" in str(found.error), what
        assert len(notes(f"{shared.notes}-{what}", "run")) == 1


def test_a_result_that_is_not_what_the_task_promises_fails_once(shared: Place) -> None:
    job = results.promises_a_number.enqueue(shared.notes)
    until(lambda: shared.job(job).counters.failures)
    assert shared.job(job).state is State.FAILED
    assert len(notes(shared.notes, "run")) == 1
