"""A machine cloned from a living one knows nothing of its sessions: two runs never overlap."""

import os
import signal

import pytest
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import START_SECONDS, Handle, Place, allowance
from lifecycle.tasks import steady, steady_sync
from lifecycle.tree import Part, Worker

from limpet.domain.session import SessionState
from limpet.host.run_directory import run_directory

EVERY_STORE = True
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.modes(Mode.NAMESPACE),
    pytest.mark.prove_on("sqlite", "postgres"),
]

# Another machine as far as the kernel can make one: its own mounts and processes, the same files in
# the run directory, by their inodes too, whose locks are not those of the machine it was cloned
# from, and a boot id of its own.
CLONE = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay none -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$2"
echo 0b00d0b0-0000-4000-8000-000000000000 > "$1/boot_id"
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
shift 2
exec "$@"
"""


def cloned(place: Place) -> tuple[str, ...]:
    """The words that start a command on a clone of this machine."""
    disk = place.folder / "clone"
    disk.mkdir()
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    return (*apart, "sh", "-c", CLONE, "clone", str(disk), run_directory())


def stop(worker: Worker) -> None:
    """Its first process is the one that waits for it outside."""
    worker.signal(signal.SIGTERM, worker.only(Part.GUARDIAN).pid)
    assert worker.wait(START_SECONDS) is not None


def test_clone_of_a_living_machine_takes_none_of_its_jobs(place: Place) -> None:
    original = place.worker()
    in_lane: Handle = steady_sync.enqueue(word="over")
    in_loop: Handle = steady.enqueue(word="over")
    place.until_begun(in_lane, in_loop)
    session = place.session(original)
    assert os.path.dirname(session.lock.path if session.lock else "") == run_directory()
    clone = place.begin_worker("clone", wrapper=cloned(place))
    if place.store_kind == "sqlite":
        # Its locks do not reach the other machine, so the file is refused.
        assert clone.wait(START_SECONDS + allowance()) == 2, clone.log
        assert "is being written by another machine" in clone.log
    jobs = [in_lane, in_loop]
    if place.store_kind != "sqlite":
        # It looks for sessions that are proven dead before it registers, and while it runs.
        place.session(clone)
        done: Handle = steady_sync.enqueue(word="over")
        place.until_begun(done)
        jobs.append(done)
    found = {each.id: each for each in place.store.sessions(with_dead=True)}[session.id]
    assert found.state is SessionState.LIVE
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        assert len(place.attempts(job)) == 1
        assert place.losses(job) == []
    if place.store_kind != "sqlite":
        stop(clone)
    assert_no_orphans(place)
