"""The pages that promise something name the tests that show it, and these are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = list((ROOT / "tests").rglob("test_*.py"))
PAGES = [ROOT / "docs" / "concepts" / f"{name}.md" for name in ("guarantees", "security")]


def named(page: Path) -> set[str]:
    """The names of tests, and of files of tests, on a page."""
    return set(re.findall(r"`(?:tests/[a-z]+/)?(test_\w+(?:\.py)?)`", page.read_text()))


def missing(names: set[str]) -> list[str]:
    functions = {
        function
        for path in TESTS
        for function in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    return sorted(names - functions - {path.name for path in TESTS})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    names = named(page)
    assert len(names) > 10
    assert missing(names) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_files_that_a_page_names_are_where_it_says(page: Path) -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`", page.read_text()):
        assert (ROOT / path).is_file(), path


def test_a_test_that_is_not_there_is_found() -> None:
    assert missing({"test_docs.py", "test_that_nobody_wrote"}) == ["test_that_nobody_wrote"]
