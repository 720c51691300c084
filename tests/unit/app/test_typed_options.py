"""What type checkers know of options is what is checked at run time."""

import inspect
from typing import Any, get_type_hints

import pytest

from limpet import App, Breaker, InvalidOption, SyncTask, Task
from limpet.app.options import JobOptions
from limpet.app.task import AsyncTask
from limpet.app.typed_options import (
    OF_A_TASK,
    BreakerOptions,
    ScannerOptions,
    TaskOptions,
    UsingOptions,
)


def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def test_options_of_using_are_those_of_a_job() -> None:
    of_a_job = hints_of(JobOptions)
    using = hints_of(UsingOptions)
    assert set(using) == set(of_a_job)
    # A connection is of any class, which a type checker has to be told in another way.
    assert {name for name in using if using[name] != of_a_job[name]} == {"within"}


def test_options_of_a_task_are_those_of_its_jobs_and_its_own() -> None:
    assert set(hints_of(TaskOptions)) == {*hints_of(UsingOptions), *OF_A_TASK} - {"within"}
    assert set(hints_of(TaskOptions)) - set(hints_of(ScannerOptions)) == {"retry"}


def test_options_of_a_breaker_are_those_of_the_class() -> None:
    written = inspect.signature(Breaker).parameters
    assert hints_of(BreakerOptions) == {
        name: written[name].annotation for name in written if name != "name"
    }


@pytest.mark.parametrize("given", [{"queu": "x"}, {"delya": "3s"}])
def test_an_option_that_there_is_not_is_refused_with_those_that_there_are(
    given: dict[str, Any],
) -> None:
    app = App("sqlite://")
    with pytest.raises(InvalidOption, match="unknown option .*; known are queue, .*on_pressure"):
        app.task(**given)
    app.close()


def test_a_task_is_of_the_class_that_tells_what_a_call_of_it_returns() -> None:
    app = App("sqlite://")

    @app.task
    def plain() -> int:
        return 7

    @app.task(queue="email")
    async def asynchronous() -> int:
        return 7

    assert isinstance(plain, SyncTask)
    assert plain() == 7
    assert isinstance(asynchronous, AsyncTask)
    called = asynchronous()
    called.close()
    for task in (plain, asynchronous):
        assert isinstance(task, Task)
        assert type(task.using(priority=1)) is type(task)
    app.close()
