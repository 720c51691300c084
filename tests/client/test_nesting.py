"""Values that are nested too deeply are refused in a sentence, wherever they come from."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from limpet import App, Secret
from limpet.cli.main import main
from limpet.domain.errors import PayloadInvalid


class Model(BaseModel):
    inner: Any


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [260, 500, 990, 5_000, 100_000])
@pytest.mark.parametrize(
    "hint", [list, list[Any], list[list[Any]], dict[str, Any], Model, Annotated[list[Any], Secret]]
)
def test_a_value_nested_too_deeply_is_refused_in_a_sentence(levels: int, hint: Any) -> None:
    app = App("sqlite://")

    def takes(value: Any) -> None: ...

    takes.__annotations__["value"] = hint
    task = app.task(takes)
    value: Any = nested(levels)
    value = Model.model_construct(inner=value) if hint is Model else value
    value = {"deep": value} if hint == dict[str, Any] else value
    with pytest.raises(PayloadInvalid, match="nested too deeply"):
        task.enqueue(value)
    app.close()


def test_a_value_that_contains_itself_is_refused_in_a_sentence() -> None:
    app = App("sqlite://")

    @app.task
    def takes(value: list[Any]) -> None: ...

    value: list[Any] = []
    value.append(value)
    with pytest.raises(PayloadInvalid):
        takes.enqueue(value)
    app.close()


@pytest.mark.parametrize("levels", [500, 100_000])
def test_the_command_line_refuses_it_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], levels: int
) -> None:
    (tmp_path / "deep_shop.py").write_text(
        "from limpet import App\n"
        f"app = App('sqlite:///{tmp_path}/jobs.db')\n"
        "@app.task\ndef takes(value: list) -> None: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = '{"value": ' + "[" * levels + "]" * levels + "}"
    assert main(["enqueue", "takes", text, "--app", "deep_shop:app"]) == 2
    err = capsys.readouterr().err
    assert "nested too deeply" in err
    assert len(err.splitlines()) == 1
    sys.modules.pop("deep_shop", None)


def test_the_reasons_of_a_misfit_are_bounded() -> None:
    app = App("sqlite://")

    @app.task
    def takes(value: list[int]) -> None: ...

    with pytest.raises(PayloadInvalid) as caught:
        takes.enqueue(json.loads(json.dumps(["no"] * 10_000)))
    assert len(str(caught.value)) < 5_000
    assert "and 9990 more" in str(caught.value)
    app.close()
