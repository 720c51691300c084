"""Huey on SQLite, as a contender."""

from contender import Contender
from peers.installed import VENV, huey_missing


class Huey(Contender):
    """Its consumer with that many threads, else as it comes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.name = f"Huey on SQLite, {threads} thread{'s' if threads > 1 else ''}"
        self.settings = f"`huey_consumer --workers {threads} --worker-type thread --quiet`"

    def missing(self) -> str | None:
        return huey_missing()

    def worker(self) -> list[str]:
        options = ["--workers", str(self.threads), "--worker-type", "thread", "--quiet"]
        return [str(VENV / "bin" / "huey_consumer"), "peers.huey_jobs.queue", *options]

    def fill(self, jobs: int) -> list[str]:
        return [str(VENV / "bin" / "python"), "-m", "peers.huey_jobs", "fill", str(jobs)]

    def pick_up(self, jobs: int) -> list[str]:
        return [str(VENV / "bin" / "python"), "-m", "peers.huey_jobs", "pickup", str(jobs)]
