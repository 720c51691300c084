"""No room for the store to grow: outcomes wait, runs end with the lease, nothing runs in vain."""

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance, wall_of
from lifecycle.tasks import quick, steady, steady_sync
from lifecycle.tree import EXECUTORS, Part, Settings, Worker

from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

LEASE = 2.5
BACK = "the store answers again"
DISK_BYTES = 8 << 20


class FullDisk:
    """A small disk that the store shares with something that grows."""

    words = "there is no room left on the disk"

    def __init__(self, place: Place, worker: Worker) -> None:
        self._ballast = (place.folder / place.file).with_name("ballast")

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass

    def free(self) -> None:
        self._ballast.unlink()


class Quota:
    """A limit on the size of files, which a worker's supervisor has reached."""

    words = "cannot grow"

    def __init__(self, place: Place, worker: Worker) -> None:
        self._store = place.folder / place.file
        self._pid = worker.only(Part.SUPERVISOR).pid

    def fill(self) -> None:
        size = Path(f"{self._store}-wal").stat().st_size
        self._limit(size)

    def free(self) -> None:
        self._limit(resource.prlimit(self._pid, resource.RLIMIT_FSIZE)[1])

    def _limit(self, size: int) -> None:
        most = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (size, most))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk, or an ordinary folder where none can be had."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(tmp_path)]
    mounted = os.getuid() == 0 and not subprocess.run(mount, check=False).returncode
    yield tmp_path
    if mounted:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def begun(place: Place, word: str) -> list[Handle]:
    """A job in the loop and one in a lane, until the word."""
    jobs: list[Handle] = [steady.enqueue(word=word), steady_sync.enqueue(word=word)]
    place.until_begun(*jobs)
    place.until_known(*jobs)
    return jobs


def ended(place: Place, jobs: list[Handle]) -> bool:
    """Whether the runs have come to their end, whatever the store knows."""
    over = {record.job for record in place.records() if record.kind == "end"}
    return {job.id for job in jobs} <= over


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("kind", [FullDisk, Quota], ids=["disk", "quota"])
def test_outcomes_wait_for_room_and_what_ran_past_the_lease_runs_again(
    disk: Path, one_place: Place, kind: Callable[[Place, Worker], FullDisk | Quota]
) -> None:
    if kind is FullDisk and not disk.is_mount():
        pytest.skip("mounting a small disk is not permitted here; the quota is tested instead")
    place = one_place
    place.move_to(disk / "jobs.db")
    worker = place.worker(settings=Settings(lease=LEASE, lanes=3))
    old = place.session(worker).id
    room = kind(place, worker)

    # There is room again before the lease is over: nobody notices.
    brief, long = begun(place, "brief"), begun(place, "long")
    room.fill()
    place.say("brief")
    place.until(lambda: ended(place, brief), said="they are done")
    place.until(lambda: room.words in worker.log, said="the log says why")
    assert {place.job(job).state for job in brief} == {State.RUNNING}
    room.free()
    place.until_final(brief)
    assert place.session(worker).id == old
    place.until(lambda: BACK in worker.log, said="the log says that it is over")

    # There is none for longer than the lease: what is done is still told, what ran runs again.
    done = begun(place, "done")
    due: Handle = quick.using(delay=LEASE / 2).enqueue()
    renewed = place.session(worker).renewed_at / 1e6
    room.fill()
    place.say("done")
    place.until(lambda: ended(place, done), said="they are done")
    supervisor = worker.only(Part.SUPERVISOR).pid
    place.until(lambda: not any(map(worker.part, EXECUTORS)), said="all runs are ended")
    before, lines = cpu_seconds(supervisor), worker.log.count("\n")
    time.sleep(1.5)
    assert cpu_seconds(supervisor) - before < 0.3, "it spins"
    assert worker.log.count("\n") - lines < 5, "it repeats itself"
    # The last renewal under way is answered, because there is nothing to write for it any more.
    assert worker.log.count(BACK) <= 2
    room.free()
    freed = time.time()
    place.until_begun(*long, times=2)
    place.say("long")
    place.until_final([*done, *long, due])
    for job in [*brief, *done]:
        assert len(place.attempts(job)) == 1, "it ran again though it was done"
    for job in long:
        first, second = place.attempts(job)
        assert wall_of(first.last) < renewed + LEASE + allowance()
        assert freed < wall_of(second.first)
    for job in [*brief, *done, *long, due]:
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)
    assert_no_orphans(place)
