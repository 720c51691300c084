"""A contender: a worker of one system, with the commands that enqueue its jobs."""

import contextlib
import copy
import os
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import processes
import tally
from engines import Engine
from peers.environment import STORE

HERE = Path(__file__).parent


class Trouble(Exception):
    """A figure could not be taken, for the reason in the sentence; the run goes on without it."""


@dataclass
class Place:
    """A new store, the folder where its jobs leave their marks, and the processes of the figure."""

    folder: Path
    url: str
    environment: dict[str, str]
    grace_seconds: float
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, command: list[str], **more: str) -> "subprocess.Popen[bytes]":
        """Start a command in the background; its output is kept for `last_words`."""
        with (self.folder / f"log-{len(self.started)}").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=HERE,
                env={**self._whole(), **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run(self, command: list[str], seconds: float = 300) -> None:
        """Run a command to its end."""
        process = self.start(command)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise Trouble(f"{Path(command[0]).name} took over {seconds:.0f} s.") from error
        if code:
            raise Trouble(f"{Path(command[0]).name} ended with {code}: {self.last_words(process)}")

    def feed(self, worker: "subprocess.Popen[bytes]", command: list[str], seconds: float) -> None:
        """Run a command to its end beside a worker that must not end meanwhile."""
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
            printed = self.last_words(worker)
            raise Trouble(f"the worker ended with {worker.poll()}: {printed}")

    def last_words(self, process: "subprocess.Popen[bytes]") -> str:
        text = (self.folder / f"log-{self.started.index(process)}").read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing."

    def close(self) -> None:
        for process in reversed(self.started):
            processes.stop(process, self.grace_seconds)

    def _whole(self) -> dict[str, str]:
        own = {tally.FOLDER: str(self.folder), STORE: self.url, "PYTHONPATH": str(HERE)}
        return {**os.environ, **own, **self.environment}


class Contender(ABC):
    """A system with its settings, on a store of one kind."""

    name: str
    settings: str
    engine: Engine
    has_bulk = True
    grace_seconds = 15.0

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot be measured here, in one sentence; None if it can."""

    @abstractmethod
    def worker(self) -> list[str]:
        """The command of its worker."""

    @abstractmethod
    def feed(self, what: str, word: str) -> list[str]:
        """The command that hands in jobs; see `feeding`."""

    def prepare(self) -> list[str] | None:
        """The command that makes an empty store ready, where one is needed."""
        return None

    def counting(self, place: "Place") -> AbstractContextManager[Callable[[], int] | None]:
        """Counts the unfinished jobs in the store; None where that is impossible."""
        return contextlib.nullcontext()

    def on(self, engine: Engine) -> Self:
        """The same contender on another engine."""
        other = copy.copy(self)
        other.engine = engine
        return other

    def fill(self, jobs: int) -> list[str]:
        """The command that hands in that many no-op jobs."""
        return self.feed("fill", str(jobs))

    def pick_up(self, jobs: int) -> list[str]:
        """The command that hands in one job at a time."""
        return self.feed("pickup", str(jobs))

    def environment(self) -> dict[str, str]:
        """The environment variables of its processes, beside that of the store."""
        return {}

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        """A new store; at the end its processes are stopped and its folder is deleted."""
        with (
            tempfile.TemporaryDirectory(prefix="limpet-bench-", ignore_cleanup_errors=True) as made,
            self.engine.new_store(Path(made)) as url,
        ):
            place = Place(Path(made), url, self.environment(), self.grace_seconds)
            try:
                if command := self.prepare():
                    place.run(command)
                yield place
            finally:
                place.close()
