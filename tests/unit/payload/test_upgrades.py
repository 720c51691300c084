"""Arguments that older code has stored, brought up to the task as it is."""

from typing import Any

import pytest

from limpet import App, InvalidOption, PayloadInvalid, Task


@pytest.fixture
def app() -> App:
    return App("sqlite://")


def greet(name: str, loud: bool) -> str:
    return name.upper() if loud else name


def unpacked(task: Task[Any, Any], have: int, args: str) -> dict[str, Any]:
    return task.upgrades.unpack(task.signature, task.name, have, task.version, args)


def test_steps_are_chained_up_to_the_version_of_the_task(app: App) -> None:
    task = app.task(version=3)(greet)

    @task.upgrade(from_version=1)
    def _(args: dict[str, Any]) -> dict[str, Any]:
        return {"name": args["first"] + " " + args["last"]}

    @task.upgrade(from_version=2)
    def _(args: dict[str, Any]) -> dict[str, Any]:
        return {**args, "loud": False}

    assert unpacked(task, 1, '{"first": "A", "last": "B"}') == {"name": "A B", "loud": False}
    assert unpacked(task, 2, '{"name": "C"}') == {"name": "C", "loud": False}


def test_new_jobs_carry_the_version(app: App) -> None:
    (old,) = app.task(name="old")(greet).new_jobs([("{}", ())])  # type: ignore[list-item]
    (new,) = app.task(version=4)(greet).new_jobs([("{}", ())])  # type: ignore[list-item]
    assert (old.payload_version, new.payload_version) == (1, 4)


def test_a_missing_step_is_told(app: App) -> None:
    task = app.task(version=3)(greet)
    task.upgrade(from_version=1)(dict)
    with pytest.raises(PayloadInvalid, match=r"no @greet.upgrade\(from_version=2\)"):
        unpacked(task, 1, "{}")


def test_a_step_that_raises_or_returns_something_else_is_told(app: App) -> None:
    task = app.task(version=2)(greet)
    task.upgrade(from_version=1)(lambda args: args["gone"])
    with pytest.raises(PayloadInvalid, match="upgrade from version 1 failed: KeyError: 'gone'"):
        unpacked(task, 1, "{}")
    with pytest.raises(PayloadInvalid, match="returned a list; it must return"):
        unpacked(task, 1, '{"gone": []}')


def test_what_comes_out_is_checked_like_any_arguments(app: App) -> None:
    task = app.task(version=2)(greet)
    task.upgrade(from_version=1)(lambda args: {"name": 1, "loud": "no idea"})
    with pytest.raises(PayloadInvalid, match="name"):
        unpacked(task, 1, "{}")
    with pytest.raises(PayloadInvalid, match="not a JSON object"):
        unpacked(task, 1, "[]")


@pytest.mark.parametrize("version", [0, -1, True, 1.5, "2"])
def test_a_version_that_cannot_be_meant_is_refused(app: App, version: Any) -> None:
    with pytest.raises(InvalidOption, match="version is"):
        app.task(version=version)(greet)


@pytest.mark.parametrize("version", [0, 2, 3, True, "1"])
def test_an_upgrade_from_no_earlier_version_is_refused(app: App, version: Any) -> None:
    with pytest.raises(InvalidOption, match="can be upgraded from versions below that"):
        app.task(version=2)(greet).upgrade(from_version=version)(dict)


def test_a_second_upgrade_from_a_version_is_refused(app: App) -> None:
    task = app.task(version=2)(greet)
    task.upgrade(from_version=1)(dict)
    with pytest.raises(InvalidOption, match="has two upgrades from version 1"):
        task.upgrade(from_version=1)(dict)


def test_an_async_upgrade_is_refused(app: App) -> None:
    async def step(args: dict[str, Any]) -> dict[str, Any]:
        return args

    with pytest.raises(InvalidOption, match="takes a plain function"):
        app.task(version=2)(greet).upgrade(from_version=1)(step)
