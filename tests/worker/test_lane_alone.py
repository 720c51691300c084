"""A real lane, with the test in the place of supervisor and zygote."""

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker.place import TESTS

from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.host import marks
from limpet.worker.wire import frames, page
from limpet.worker.wire.plan import Plan


class Lane:
    """A lane executor, started as for an app that has threads."""

    def __init__(self, folder: Path) -> None:
        ours, work = socket.socketpair()
        self._requests, requests = socket.socketpair()
        start_tokens, self._start_tokens = os.pipe()
        self._notes, notes = os.pipe()
        sheet = page.create()
        self.page = page.Page(sheet, writable=True)
        self.page.lease_ends_at = page.now() + 600_000_000
        given = [work.fileno(), requests.fileno(), start_tokens, notes]
        order = {
            "kind": "lane", "descriptors": given, "parent": os.getpid(), "page": sheet,
            "lock": os.open(os.devnull, os.O_RDONLY),
        }  # fmt: skip
        plan = Plan("worker.jobs:app", url=f"sqlite:///{folder}/jobs.db")
        environment = {
            **os.environ, **plan.environment(), "LIMPET_ORDER": json.dumps(order),
            marks.MARK: "session", "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        kept = (*given, sheet, int(str(order["lock"])))
        command = [sys.executable, "-m", "limpet.worker.executor.executor"]
        self.process = subprocess.Popen(command, env=environment, pass_fds=kept)
        for descriptor in (start_tokens, notes, sheet, int(str(order["lock"]))):
            os.close(descriptor)
        work.close()
        requests.close()
        self._channel = frames.Channel(ours, frames.from_executor(1024))
        assert self._channel.receive() == frames.ReadyFrame()

    def give(self, *seconds: float) -> None:
        """Hand over jobs that take so long, in one frame."""
        jobs = [
            ClaimedJob(
                Lease(f"job-{n}", "session", 1),
                "moody",
                "default",
                1,
                1,
                Counters(),
                False,
                False,
                1,
                json.dumps({"seconds": each}),
                "{}",
                (),
                None,
            )
            for n, each in enumerate(seconds)
        ]
        os.write(self._start_tokens, b"." * len(jobs))
        self._channel.send(frames.RunFrame(jobs, {}))

    def told(self, timeout: float) -> list[str]:
        """The jobs of the next frame of outcomes; none if none comes in time."""
        if not self._channel.has_frames and not select.select([self._channel], [], [], timeout)[0]:
            return []
        frame = self._channel.receive()
        assert isinstance(frame, frames.DoneFrame)
        return [each.lease.job for each in frame.completes]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._channel.sock.close()
        self._requests.close()
        os.close(self._start_tokens)
        os.close(self._notes)


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    lane = Lane(tmp_path)
    yield lane
    lane.close()


def test_a_lane_tells_each_outcome_before_the_next_job_begins(lane: Lane) -> None:
    lane.give(0.0, 0.0, 0.0, 60.0)
    assert [lane.told(10) for _ in range(3)] == [["job-0"], ["job-1"], ["job-2"]]


def test_a_lane_starts_nothing_past_the_moment_of_the_lease(lane: Lane) -> None:
    lane.page.lease_ends_at = page.now() - 1
    lane.give(0.0)
    assert lane.told(1.0) == []
