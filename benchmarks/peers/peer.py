"""A peer as a contender: the commands that run its jobs and enqueue them."""

import contextlib
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

import pacing
import psycopg
from contender import Contender, Place
from engines import Engine
from peers import environment
from peers.installed import bullmq_missing, python_missing, venv

HERE = Path(__file__).parent


class Peer(Contender):
    """A system that Limpet is measured beside.

    `work`: the command of its worker. `settings`: what else makes it fast. `tight`: settings for
    the soonest recovery, empty if there are none. `plain`: the command of its worker with defaults.
    `bulk`: whether one call enqueues many jobs. `prepares`: whether it must create tables.
    `left`: SQL that counts unfinished jobs, for a peer that reports them long after they ran.
    """

    grace_seconds = 2.0

    def __init__(
        self,
        system: str,
        engine: Engine,
        work: str,
        *,
        settings: str = "",
        tight: str = "",
        plain: str = "",
        bulk: bool = True,
        prepares: bool = False,
        left: str = "",
        variant: str = "",
    ) -> None:
        self.system = system
        self.module = f"{system.lower()}_jobs"
        self.name = f"{system} on {engine.name}" + (f", {variant}" if variant else "")
        self.engine = engine
        self.has_bulk = bulk
        self.settings = "; ".join(filter(None, [f"`{work}`", settings]))
        self.tight = tight
        self.setting = "best"
        self._work = shlex.split(work)
        self._plain = shlex.split(plain or work)
        self._prepares = prepares
        self._left = left

    @abstractmethod
    def program(self, *words: str) -> list[str]:
        """The command of its side of the benchmark, `peers/NAME_jobs`."""

    def feed(self, what: str, word: str) -> list[str]:
        return self.program(what, word)

    def prepare(self) -> list[str] | None:
        return self.program("prepare") if self._prepares else None

    def environment(self) -> dict[str, str]:
        return {
            environment.SETTING: self.setting,
            "BENCH_LEAST_PAUSE": str(pacing.LEAST_PAUSE_SECONDS),
            "BENCH_MOST_PAUSE": str(pacing.MOST_PAUSE_SECONDS),
            "NODE_ENV": "production",
        }

    @contextlib.contextmanager
    def counting(self, place: Place) -> Iterator[Callable[[], int] | None]:
        if not self._left:
            yield None
            return
        with psycopg.connect(place.url, autocommit=True) as line:

            def left() -> int:
                row = line.execute(self._left.encode()).fetchone()
                assert row is not None
                return int(row[0])

            yield left

    def set_to(self, setting: str) -> Self:
        """The same peer with another value of `environment.setting`."""
        other = self.on(self.engine)
        other.setting = setting
        other._work = self._plain
        return other


class PythonPeer(Peer):
    """A peer in a virtual environment of its own."""

    def missing(self) -> str | None:
        return self.engine.missing() or python_missing(self.system)

    def worker(self) -> list[str]:
        return [str(venv(self.system) / "bin" / self._work[0]), *self._work[1:]]

    def program(self, *words: str) -> list[str]:
        python = str(venv(self.system) / "bin" / "python")
        return [python, "-m", f"peers.{self.module}", *words]


class NodePeer(Peer):
    """A peer in node_modules."""

    _queues = ""

    def with_queues(self, places: Mapping[str, int], variant: str) -> Self:
        """The same with queues of its own, each with so many places; fed in turn."""
        other = self.on(self.engine)
        other.name = f"{self.name}, {variant}"
        other._queues = ",".join(f"{queue}={count}" for queue, count in places.items())
        return other

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "BENCH_QUEUES": self._queues}

    def missing(self) -> str | None:
        return self.engine.missing() or bullmq_missing()

    def worker(self) -> list[str]:
        return self.program("work")

    def program(self, *words: str) -> list[str]:
        return ["node", str(HERE / f"{self.module}.js"), *words]
