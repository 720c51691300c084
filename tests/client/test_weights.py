"""What a task weighs is said with the task, checked there, and seen with its jobs."""

import json
from typing import Any

import pytest

from limpet import App, InvalidOption, Weight
from limpet.domain.weight import HEAVY
from limpet.worker.executor.registry import Registry
from limpet.worker.wire.catalog import Catalog
from limpet.worker.wire.frames import FROM_ZYGOTE, CatalogFrame, pack

FULL = Weight(cpu=1.5, memory="2GiB")


def crunch() -> None: ...


def options_of(job: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.refresh().details.options)
    return found


def catalog(app: App) -> Catalog:
    """As the supervisor reads it."""
    data = pack(CatalogFrame(Registry(app).catalog(threads=1, contained=False)))
    frame = FROM_ZYGOTE.decode(data[8:])
    assert isinstance(frame, CatalogFrame)
    return frame.catalog


def test_weight_goes_with_the_job_for_people_to_see(app: App) -> None:
    task = app.task(weight=FULL, timeout="5s")(crunch)
    seen = {"timeout": 5.0, "weight": {"cpu": 1.5, "memory": 2 << 30}}
    assert options_of(task.enqueue()) == seen
    assert options_of(task.using(priority=1).enqueue()) == seen
    assert options_of(task.using(timeout="9s").enqueue()) == {**seen, "timeout": 9.0}


def test_heavy_is_a_weight(app: App) -> None:
    task = app.task(heavy=True)(crunch)
    assert task.weight == HEAVY
    assert options_of(task.enqueue()) == {"weight": {"heavy": True}}


def test_job_of_a_light_task_has_no_weight(app: App) -> None:
    assert options_of(app.task(crunch).enqueue()) == {}


def test_worker_learns_which_tasks_have_weights_and_which_give_way(app: App) -> None:
    app.task(name="light")(crunch)
    app.task(name="full", weight=FULL)(crunch)
    app.task(name="heavy", heavy=True, on_pressure="release")(crunch)
    found = catalog(app)
    assert found.weights() == {"full": FULL, "heavy": HEAVY}
    assert found.giving_way() == {"heavy"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight": FULL, "heavy": True}, "weight and heavy are both given; a heavy job"),
        ({"weight": 2}, r"weight is 2; write limpet.Weight\("),
        ({"heavy": 1}, "heavy is 1; write True or False"),
        ({"on_pressure": "release"}, "on_pressure is 'release', but the task has no weight"),
        ({"heavy": True, "on_pressure": "stop"}, "on_pressure is 'stop'; write \"release\""),
    ],
)
def test_wrong_weight_is_refused_with_a_sentence(
    app: App, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        app.task(**options)


@pytest.mark.parametrize("options", [{"weight": FULL}, {"heavy": True}, {"on_pressure": "release"}])
def test_single_job_cannot_have_a_weight_of_its_own(app: App, options: dict[str, Any]) -> None:
    """The worker that claims judges by what its own code says of the task."""
    task = app.task(crunch)
    (name,) = options
    with pytest.raises(
        InvalidOption, match=f"crunch: {name} is of the task.*@app.task\\({name}=…\\)"
    ):
        task.using(**options)
