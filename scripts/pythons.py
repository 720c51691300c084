"""Runs a short part of the tests on each other Python that this machine has.

    python scripts/pythons.py

It looks for them on the PATH and under pyenv. `make` creates an environment for each. The exit code
is 1 if a test fails on one of them, or if an interpreter of a version that the package supports
cannot be set up. A newer one that cannot be set up is only named: Limpet's dependencies may not
support it yet.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (\d+)\.(\d+)")
_PROGRAM = re.compile(r"python3\.(\d+)")
# A Python without venv or pip, as some systems have it, cannot be given an environment.
_QUESTION = (
    "import ensurepip, sys, venv\n"
    "print(*sys.version_info[:4])\n"
    "print(sys.executable)"
)  # fmt: skip
_QUESTION_SECONDS = 30

Version = tuple[int, int]


def supported() -> set[Version]:
    """The versions that the package declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = (_CLASSIFIER.fullmatch(each) for each in project["classifiers"])
    return {(int(each[1]), int(each[2])) for each in found if each is not None}


def programs(path: str, pyenv: Path) -> Iterator[tuple[Version, Path]]:
    """Programs that are named like a Python, first those on the PATH, then those of pyenv."""
    folders = [Path(each) for each in path.split(os.pathsep) if each]
    folders += sorted((pyenv / "versions").glob("*/bin"), reverse=True)
    for folder in folders:
        for program in sorted(folder.glob("python3.*")):
            named = _PROGRAM.fullmatch(program.name)
            if named is not None and os.access(program, os.X_OK):
                yield (3, int(named[1])), program


def identified(program: Path) -> tuple[Version, Path] | None:
    """The version of a released Python and the program behind a link or a shim; None if unfit."""
    try:
        done = subprocess.run(
            [program, "-c", _QUESTION],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_QUESTION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None  # also a shim of pyenv for a version that is not in use
    numbers, executable = done.stdout.splitlines()
    major, minor, _, level = numbers.split()
    return ((int(major), int(minor)), Path(executable)) if level == "final" else None


def others(path: str, pyenv: Path, own: Version) -> dict[Version, Path]:
    """For each version but our own, the first interpreter that is fit."""
    found: dict[Version, Path] = {}
    for version, program in programs(path, pyenv):
        if version < OLDEST or version == own or version in found:
            continue
        fit = identified(program)
        if fit is not None and fit[0] == version:
            found[version] = fit[1]
    return dict(sorted(found.items()))


def make(python: Path, target: str) -> bool:
    """Run a target of the Makefile with that interpreter; whether it succeeded."""
    environment = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS"}}
    command = ["make", "--no-print-directory", f"PYTHON={python}", target]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = os.environ.get("PATH", os.defpath)
    troubles = []
    for version, python in others(path, pyenv, sys.version_info[:2]).items():
        name = f"Python {version[0]}.{version[1]}"
        print(f"== {name}: {python}", flush=True)
        if not make(python, "install"):
            if version in supported():
                troubles.append(f"{name}: there is no environment for it")
            else:
                print(f"{name} cannot be set up, and is not supported yet: left out")
        elif not make(python, "short"):
            troubles.append(f"{name}: a test failed")
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
