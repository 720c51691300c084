"""Installs the systems that Limpet is measured beside; run by `make peers`.

Each peer that is written in Python goes into a virtual environment of its own, BullMQ into
node_modules here, all in the exact versions that the files beside this one name. redis-server, node
and npm come from the PATH, or are installed with apt-get where this runs as root. What cannot be
installed is reported in one sentence; the benchmark then runs without it.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from peers.installed import (
    HERE,
    bullmq_missing,
    modules_missing,
    python_missing,
    python_systems,
    requirements,
    venv,
)


class Failed(Exception):
    """A step failed; the sentence names it."""


def run(*command: str) -> None:
    done = subprocess.run(
        command, cwd=HERE, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else "it printed nothing"
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {last}")


def program(name: str, package: str) -> None:
    """Make sure that a program is on the PATH."""
    if shutil.which(name):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Failed(f"{name} is not on the PATH, and only root with apt-get could install it")
    run("apt-get", "install", "--yes", "--no-install-recommends", package)


def python_peer(system: str) -> None:
    if python_missing(system) is None:
        return
    python = venv(system) / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", str(venv(system)))
    pip = (str(python), "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--requirement", str(requirements(system)))


def bullmq() -> None:
    program("redis-server", "redis-server")
    program("node", "nodejs")
    if modules_missing() is not None:
        program("npm", "npm")
        run("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")


def main() -> int:
    parts: list[tuple[str, Callable[[], None], Callable[[], str | None]]] = [
        ("BullMQ", bullmq, bullmq_missing)
    ]
    for system in python_systems():
        parts.append(
            (
                system,
                functools.partial(python_peer, system),
                functools.partial(python_missing, system),
            )
        )
    for name, install, missing in parts:
        try:
            install()
        except (Failed, OSError) as error:
            print(f"{name} will not be measured: {error}.", flush=True)
        else:
            print(missing() or f"{name} is there.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
