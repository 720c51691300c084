"""The examples in the documentation run as they stand there."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "concepts"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"print\(.*\)\s+# (?!the )(.+)")


@pytest.mark.parametrize(
    "name", ["breakers", "flows", "keys-and-limits", "results-and-versions", "unique"]
)
def test_the_examples_of_a_page_run_and_print_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(CODE.findall((PAGES / f"{name}.md").read_text()))
    assert "App(" in code
    printed = io.StringIO()
    space: dict[str, object] = {"__name__": name}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"{name}.md", "exec"), space)
    lines = printed.getvalue().splitlines()
    for said in SAID.findall(code):
        assert said in lines
    space["app"].close()  # type: ignore[attr-defined]
