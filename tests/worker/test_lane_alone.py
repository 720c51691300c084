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
from limpet.worker import frames, page, processes
from limpet.worker.plan import Plan


class Lane:
    """A lane executor, started as for an app that has threads."""

    def __init__(self, folder: Path) -> None:
        ours, work = socket.socketpair()
        self._desk, desk = socket.socketpair()
        permits, self._permits = os.pipe()
        self._notes, notes = os.pipe()
        sheet = page.create()
        self.page = page.Page(sheet, writable=True)
        self.page.moment = page.now() + 600_000_000
        given = [work.fileno(), desk.fileno(), permits, notes]
        order = {
            "kind": "lane", "descriptors": given, "parent": os.getpid(), "page": sheet,
            "lock": os.open(os.devnull, os.O_RDONLY),
        }  # fmt: skip
        plan = Plan("worker.jobs:app", url=f"sqlite:///{folder}/jobs.db")
        environment = {
            **os.environ, **plan.environment(), "LIMPET_ORDER": json.dumps(order),
            processes.MARK: "session", "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        kept = (*given, sheet, int(str(order["lock"])))
        command = [sys.executable, "-m", "limpet.worker.executor"]
        self.process = subprocess.Popen(command, env=environment, pass_fds=kept)
        for descriptor in (permits, notes, sheet, int(str(order["lock"]))):
            os.close(descriptor)
        work.close()
        desk.close()
        self._channel = frames.Channel(ours)
        assert self._channel.receive()[0] == frames.READY

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
        os.write(self._permits, b"." * len(jobs))
        self._channel.send(frames.RUN, jobs, {})

    def told(self, timeout: float) -> list[str]:
        """The jobs of the next frame of outcomes; none if none comes in time."""
        if not self._channel.has_frames and not select.select([self._channel], [], [], timeout)[0]:
            return []
        frame = self._channel.receive()
        assert frame[0] == frames.DONE
        return [each.lease.job for each in frame.completes]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._channel.sock.close()
        self._desk.close()
        os.close(self._permits)
        os.close(self._notes)


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    lane = Lane(tmp_path)
    yield lane
    lane.close()


def test_a_lane_says_what_it_has_done_when_the_next_job_is_not_quick_after_all(lane: Lane) -> None:
    lane.give(*[0.0] * 5)
    while len(lane.told(10)) == 1:
        pass  # until it knows that the task is quick, and tells several together
    lane.give(*[0.0] * 5, 60.0)
    kept = lane.told(0.5)
    assert kept == [], "they wait for the next, which would be quick as a rule"
    os.kill(lane.process.pid, processes.STOP_SIGNAL)
    assert lane.told(10) == [f"job-{n}" for n in range(5)]


def test_a_lane_tells_each_outcome_at_once_before_a_task_that_it_does_not_know(lane: Lane) -> None:
    lane.give(0.001, 0.0)
    assert lane.told(10) == ["job-0"]
    assert lane.told(10) == ["job-1"]


def test_a_lane_starts_nothing_past_the_moment_of_the_lease(lane: Lane) -> None:
    lane.page.moment = page.now() - 1
    lane.give(0.0)
    assert lane.told(1.0) == []
