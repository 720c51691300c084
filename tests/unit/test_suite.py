"""How the tests are divided, and on which Pythons they run."""

import os
import sys
from pathlib import Path

import environment
import pytest
import pythons
import suite

TESTS = Path(__file__).resolve().parents[1]


def test_every_folder_of_tests_is_in_one_part() -> None:
    every = suite.folders(TESTS)
    assert {"contract", "lifecycle", "unit"} <= set(every)
    divided = [folder for part in suite.parts(every, 2) for folder in part.folders]
    assert sorted(divided) == sorted(every)
    assert {each.parent.name for each in TESTS.rglob("test_*.py")} == set(every)


def test_folder_that_nobody_knows_does_not_give_way(tmp_path: Path) -> None:
    for name in ("contract", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_some.py").touch()
    folders = {part.gives_way: part.folders for part in suite.parts(suite.folders(tmp_path), 2)}
    assert folders == {False: ("new",), True: ("contract",)}


def test_whole_contract_is_in_the_part_that_judges_it() -> None:
    (part,) = (each for each in suite.parts(suite.folders(TESTS), 2) if "contract" in each.folders)
    assert str(Path("tests") / "contract") in part.command
    assert not {"-k", "-m", "--deselect", "--ignore"} & set(part.words)


# -- environments


def pretended(root: Path, name: str, interpreter: str) -> None:
    """An environment of another interpreter."""
    folder = root / name / "bin"
    folder.mkdir(parents=True)
    (root / interpreter).touch()
    (folder / "python").symlink_to(root / interpreter)


def test_first_interpreter_gets_the_plain_folder(tmp_path: Path) -> None:
    assert environment.folder(str(tmp_path), "3.13.1", "/usr/bin/python3.13") == ".venv"
    (tmp_path / ".venv" / "debian").mkdir(parents=True)  # what is no environment is in nobody's way
    assert environment.folder(str(tmp_path), "3.13.1", "/usr/bin/python3.13") == ".venv"


def test_environment_of_another_interpreter_is_never_taken(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    pretended(root, ".venv", "3.11")
    own = str(root / "3.13")
    assert environment.folder(str(root), "3.13.1", own) == ".venv-3.13"
    pretended(root, ".venv-3.13", "other-3.13")
    assert environment.folder(str(root), "3.13.1", own) == ".venv-3.13.1"
    pretended(root, ".venv-3.13.1", "third-3.13")
    assert environment.folder(str(root), "3.13.1", own) == ""


@pytest.mark.parametrize("name", [".venv", ".venv-3.13", ".venv-3.13.1"])
def test_own_environment_is_found_again(tmp_path: Path, name: str) -> None:
    root = tmp_path.resolve()
    for each in environment.names("3.13.1"):
        pretended(root, each, "3.13" if each == name else f"of{each}")
    assert environment.folder(str(root), "3.13.1", str(root / "3.13")) == name


# -- other Pythons

NEWEST = max(pythons.supported())


def program(folder: Path, version: str, level: str = "final", code: int = 0) -> Path:
    """A program that says that it is that Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"python{version.rpartition('.')[0]}"
    numbers = version.replace(".", " ")
    path.write_text(f"#!/bin/sh\necho {numbers} {level}\necho {path}\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_supported_versions_are_those_of_the_package() -> None:
    assert {(3, 11), (3, 12), (3, 13)} <= pythons.supported()
    assert sys.version_info[:2] in pythons.supported() or sys.version_info[:2] > NEWEST


def test_pythons_are_found_on_the_path_and_under_pyenv(tmp_path: Path) -> None:
    one, two, pyenv = tmp_path / "one", tmp_path / "two", tmp_path / "pyenv"
    first = program(one, "3.12.1")
    program(two, "3.12.9")
    old = program(pyenv / "versions" / "3.10.2" / "bin", "3.10.2")
    newer = program(pyenv / "versions" / "3.14.0" / "bin", "3.14.0")
    found = pythons.others(f"{one}{os.pathsep}{two}", pyenv, (3, 11))
    assert found == {(3, 12): first, (3, 14): newer}
    assert old not in found.values()


def test_python_that_is_unfit_is_passed_over(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("shim", "unfinished", "liar", "fit")]
    program(folders[0], "3.13.0", code=127)  # a shim of pyenv for a version that is not in use
    program(folders[1], "3.13.0", level="candidate")
    program(folders[2], "3.12.0").rename(folders[2] / "python3.13")
    fit = program(folders[3], "3.13.5")
    (folders[3] / "python3.13-config").touch(0o755)
    path = os.pathsep.join(map(str, folders))
    assert pythons.others(path, tmp_path / "none", (3, 11)) == {(3, 13): fit}


def test_own_version_is_not_tried_again(tmp_path: Path) -> None:
    program(tmp_path, "3.13.0")
    assert pythons.others(str(tmp_path), tmp_path / "none", (3, 13)) == {}


@pytest.mark.parametrize("target", ["install", "short"])
@pytest.mark.parametrize("version", [NEWEST, (3, 99)], ids=["supported", "newer"])
def test_python_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: tuple[int, int],
    target: str,
) -> None:
    """But for a newer one for which there is nothing to install yet."""
    monkeypatch.setattr(pythons, "others", lambda *_: {version: Path("/some/python")})
    monkeypatch.setattr(pythons, "make", lambda python, asked: asked != target)
    failed = version == NEWEST or target == "short"
    assert pythons.main() == int(failed)
    said = capsys.readouterr()
    assert f"Python {version[0]}.{version[1]}" in (said.err if failed else said.out)
