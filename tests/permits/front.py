"""`limpet gate run` as a process, for tests."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

from lifecycle.processes import below, environment, everything
from machine import crowded

MARK = "LIMPET_TEST_RUN"
PATIENCE_SECONDS = 20.0
LEASE_SECONDS = 10.0


class Front:
    """`limpet gate run` as a process, and what belongs to it."""

    def __init__(self, url: str, words: tuple[str, ...], options: tuple[str, ...]) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "limpet.cli.main", "gate", "run", "--url", url]
            + [*options, "--", *words],
            env={**os.environ, MARK: self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def living(self) -> list[int]:
        """Every process of it, whoever its parent is by now."""
        return [pid for pid in everything() if environment(pid).get(MARK) == self.mark]

    @property
    def guardian(self) -> int:
        (found,) = (each for each in below(self.process.pid) if each.comm == "limpet-run")
        return found.pid

    def end(self) -> tuple[int, str, str]:
        """How it ended: code, output, errors."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS * crowded())
        return self.process.returncode, out, err

    def nothing_is_left(self, seconds: float = 1.0) -> None:
        until = time.monotonic() + seconds * crowded()
        while (left := self.living()) and time.monotonic() < until:
            time.sleep(0.01)
        assert left == [], [str(everything().get(pid)) for pid in left]


Run = Callable[..., Front]


def until(true: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds * crowded()
        time.sleep(0.01)
