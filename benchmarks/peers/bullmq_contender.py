"""BullMQ on Redis, as a contender; each place has a Redis of its own."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pacing
from contender import Contender, Place, Trouble
from peers.installed import bullmq_missing

PROGRAM = str(Path(__file__).parent / "bullmq_jobs.js")


class BullMQ(Contender):
    """A worker with that many jobs at a time."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.name = "BullMQ on Redis"
        self.settings = f"`concurrency: {concurrency}`, `removeOnComplete: true`"

    def missing(self) -> str | None:
        return bullmq_missing()

    def worker(self) -> list[str]:
        return ["node", PROGRAM, "work", str(self.concurrency)]

    def fill(self, jobs: int) -> list[str]:
        return ["node", PROGRAM, "fill", str(jobs)]

    def pick_up(self, jobs: int) -> list[str]:
        return ["node", PROGRAM, "pickup", str(jobs)]

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        with super().place() as place:
            port = _free_port()
            place.environment = {
                "BENCH_REDIS": str(port),
                "BENCH_LEAST_PAUSE": str(pacing.LEAST_PAUSE_SECONDS),
                "BENCH_MOST_PAUSE": str(pacing.MOST_PAUSE_SECONDS),
                "NODE_ENV": "production",
            }
            # Nothing is kept on disk: the fastest that Redis can be.
            keep = ["--save", "", "--appendonly", "no", "--dir", str(place.folder)]
            listen = ["--port", str(port), "--bind", "127.0.0.1"]
            server = place.start(["redis-server", *listen, *keep])
            _wait_for(port, place, server)
            yield place


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, place: Place, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise Trouble(f"Redis does not answer: {place.last_words(server)}")
