"""Prints the folder of the environment of this interpreter; run by make, on any Python 3.

    PYTHON scripts/environment.py

`.venv` belongs to the first interpreter with which make ran. Another interpreter gets a folder with
its version in the name, so that no interpreter uses the environment of another one.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST = (3, 11)


def names(version: str) -> "list[str]":
    """The folders that an interpreter may use, in the order in which they are tried."""
    minor = version.rpartition(".")[0]
    return [".venv", f".venv-{minor}", f".venv-{version}"]


def folder(root: str, version: str, interpreter: str) -> str:
    """The first folder that is free or the interpreter's own; empty if all belong to others."""
    for name in names(version):
        python = os.path.join(root, name, "bin", "python")
        if not os.path.exists(python) or os.path.realpath(python) == interpreter:
            return name
    return ""


def main() -> int:
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info < OLDEST:
        sys.exit(
            f"Limpet needs Python 3.11 or newer, and {sys.executable} is {version}; "
            "try: make PYTHON=python3.11 …"
        )
    # The program of an environment is a link to the interpreter that created it.
    found = folder(ROOT, version, os.path.realpath(sys.executable))
    if not found:
        sys.exit(f"{names(version)[-1]} belongs to another Python {version}: remove it.")
    print(found)
    return 0


if __name__ == "__main__":
    main()
