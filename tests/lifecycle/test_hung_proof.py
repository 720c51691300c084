"""Where a proof of death hangs, leases end and jobs are recovered as anywhere else."""

import os
import sys
from datetime import timedelta

import pytest
from contract.driver import Holder
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, Place, allowance
from lifecycle.tasks import quick

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.session import SessionLock
from limpet.storage.contract.store import Store

EVERY_STORE = True
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.modes(Mode.NAMESPACE),
    pytest.mark.prove_on("redis", "postgres"),
]

LEASE = timedelta(seconds=3)
IDS = IdSource(SystemClock())
# The run directory of a user whose home is on a server that does not answer: a mount in the
# worker's own namespace, of whose file system nobody answers a question. It lasts as long as the
# descriptor, which the worker inherits.
HUNG = """
import ctypes, os, sys
folder, *words = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x00020000) == 0, os.strerror(ctypes.get_errno())
assert libc.mount(None, b"/", None, 0x4000 | 0x40000, None) == 0
descriptor = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(descriptor, True)
options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0".encode()
assert libc.mount(b"hung", folder.encode(), b"fuse.hung", 0, options) == 0
os.execv(words[0], words)
"""


def register(store: Store, folder: str) -> None:
    """A session that would be looked for there."""
    session = IDS.new()
    lock = SessionLock(f"{folder}/{session}.lock", 1, "nonce")
    Holder(store, (quick.name,), lease=timedelta(hours=1), session=session, lock=lock)


def test_mount_that_hangs_keeps_no_lease_from_its_end(place: Place) -> None:
    # No user of this machine; root looks after the sessions of all.
    folder = f"/tmp/limpet-{4_100_000_000 + os.getpid()}"
    os.mkdir(folder)
    try:
        job = quick.enqueue()
        vanished = Holder(place.store, (quick.name,), lease=LEASE, session=IDS.new())
        vanished.take(begin=True)
        register(place.store, folder)
        worker = place.begin_worker(wrapper=(sys.executable, "-c", HUNG, folder))
        registered = place.session(worker).registered_at / 1e6
        register(place.store, folder)
        place.until_final([job], PATIENCE_SECONDS + allowance())
        (loss,) = place.losses(job)
        assert loss.at / 1e6 - registered <= LEASE.total_seconds() + allowance(), worker.log
    finally:
        os.rmdir(folder)
    for each in place.store.sessions():
        if each.name == "worker":  # those that nobody can prove dead
            place.store.end(each.id, loss.cause)  # type: ignore[arg-type]
    assert_no_orphans(place)
