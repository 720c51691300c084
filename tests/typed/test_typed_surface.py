"""mypy refuses what is wrong where users write it, and nothing that is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent.relative_to(ROOT)
WRONG, RIGHT = HERE / "wrong_uses.py", HERE / "right_uses.py"
ERROR = re.compile(r"(?P<file>.+\.py):(?P<line>\d+): error: ")


@pytest.fixture(scope="module")
def refused() -> list[tuple[str, int]]:
    """The file and the line of each error; from the repository, for its settings and its cache."""
    words = [sys.executable, "-m", "mypy", "--no-error-summary", str(WRONG), str(RIGHT)]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert not ran.stderr
    found = [ERROR.match(line) for line in ran.stdout.splitlines()]
    return [(match["file"], int(match["line"])) for match in found if match is not None]


def marked(path: Path, mark: str) -> list[int]:
    lines = (ROOT / path).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if f"# {mark}" in line]


def test_each_of_ten_wrong_uses_is_one_error(refused: list[tuple[str, int]]) -> None:
    lines = marked(WRONG, "wrong")
    assert len(lines) == 10
    assert [line for file, line in refused if file == str(WRONG)] == lines


def test_none_of_thirty_right_uses_is_an_error(refused: list[tuple[str, int]]) -> None:
    assert len(marked(RIGHT, "right")) == 30
    assert [each for each in refused if each[0] != str(WRONG)] == []
