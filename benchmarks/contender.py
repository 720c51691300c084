"""What is measured: a worker of one system, with the commands that feed it."""

import contextlib
import os
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import processes
import tally

HERE = Path(__file__).parent


class Trouble(Exception):
    """A figure could not be taken; the sentence says why, and the run goes on without it."""


@dataclass
class Place:
    """A new store, the folder where its jobs leave what they saw, and who was started there."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """Start it in the background; what it prints is kept for `last_words`."""
        with (self.folder / f"log-{len(self.started)}").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=HERE,
                env=self._whole(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run(self, command: list[str], seconds: float = 300) -> None:
        """Run it to its end."""
        process = self.start(command)
        code = process.wait(seconds)
        if code:
            raise Trouble(f"{Path(command[0]).name} ended with {code}: {self.last_words(process)}")

    def feed(self, worker: "subprocess.Popen[bytes]", command: list[str], seconds: float) -> None:
        """Run it to its end beside a worker that must not end meanwhile."""
        process = self.start(command)
        give_up = time.monotonic() + seconds
        while (code := process.poll()) is None:
            self.must_run(worker)
            if time.monotonic() > give_up:
                raise Trouble(f"it did not take all jobs within {seconds:.0f} s.")
            time.sleep(0.05)
        if code:
            raise Trouble(f"{Path(command[0]).name} ended with {code}: {self.last_words(process)}")

    def must_run(self, worker: "subprocess.Popen[bytes]") -> None:
        if worker.poll() is not None:
            said = self.last_words(worker)
            raise Trouble(f"the worker ended with {worker.poll()}: {said}")

    def last_words(self, process: "subprocess.Popen[bytes]") -> str:
        text = (self.folder / f"log-{self.started.index(process)}").read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing."

    def close(self) -> None:
        for process in reversed(self.started):
            processes.stop(process)

    def _whole(self) -> dict[str, str]:
        own = {tally.FOLDER: str(self.folder), "PYTHONPATH": str(HERE)}
        return {**os.environ, **own, **self.environment}


class Contender(ABC):
    """A system with its settings."""

    name: str
    settings: str

    @abstractmethod
    def missing(self) -> str | None:
        """Why it can not be measured here, in one sentence."""

    @abstractmethod
    def worker(self) -> list[str]:
        """The command of its worker."""

    @abstractmethod
    def fill(self, jobs: int) -> list[str]:
        """The command that hands in that many no-op jobs."""

    @abstractmethod
    def pick_up(self, jobs: int) -> list[str]:
        """The command that hands in one job at a time."""

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        """A new store; what runs there is stopped at the end, and the folder is deleted."""
        with tempfile.TemporaryDirectory(
            prefix="limpet-bench-", ignore_cleanup_errors=True
        ) as made:
            place = Place(Path(made))
            try:
                yield place
            finally:
                place.close()
