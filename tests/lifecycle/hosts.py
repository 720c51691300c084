"""Hosts on one machine: namespaces with a network, a name, a boot and a run directory of their own.

The process that uses this must be in a network namespace of its own (`alone`), in which the store's
server listens; it is host number 0. Where namespaces may not be made nothing of this can be used,
and `why_not` says the reason.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

from lifecycle.fabric import Fabric, bring_up
from lifecycle.place import Place
from lifecycle.tree import Settings, Worker

from limpet.host.processes import die_with_parent

_NEWNET = 0x40000000
# What a host is: its own boot id, name and /run; it says when it is ready, and waits to be ended.
_HOST = """
set -e
mount --bind "$1" /proc/sys/kernel/random/boot_id
mount -t tmpfs tmpfs /run
echo "$2" > /proc/sys/kernel/hostname
echo ready
exec sleep 100000
"""
_TRIAL = "mount -t tmpfs tmpfs /run && echo trial > /proc/sys/kernel/hostname"


def why_not() -> str | None:
    """Why there can be no hosts here; None if there can."""
    if sys.platform != "linux":
        return "namespaces are those of Linux"
    if os.geteuid() != 0:
        return "only root may make network and mount namespaces"
    missing = [each for each in ("unshare", "nsenter") if shutil.which(each) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    words = ["unshare", "--net", "--mount", "--uts", "sh", "-c", _TRIAL]
    done = subprocess.run(words, capture_output=True, check=False)
    return done.stderr.decode().strip() or "unshare failed" if done.returncode else None


def alone() -> None:
    """Move this process, which must have one thread, to a network of its own."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    bring_up(b"lo")


class Host:
    """One host, until it is closed."""

    def __init__(self, fabric: Fabric, number: int, folder: Path) -> None:
        self.number = number
        self.name = f"host{number}"
        boot = folder / f"{self.name}.boot"
        boot.write_text(f"{uuid.uuid4()}\n")
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--propagation", "private"]
            + ["sh", "-c", _HOST, "host", str(boot), self.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_parent,  # noqa: PLW1509
        )  # fmt: skip
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == b"ready\n", f"{self.name} could not be made"
        self.address = fabric.attach(number, f"/proc/{self._process.pid}/ns/net")

    @property
    def enter(self) -> tuple[str, ...]:
        """The words before a command that make it run there."""
        spaces = ("--net", "--mount", "--uts")
        return ("nsenter", "--target", str(self._process.pid), *spaces, "--")

    def begin_worker(self, place: Place, settings: Settings) -> Worker:
        """Start a worker there."""
        worker = Worker.start(
            self.name, place.mode, settings,
            url=place.way, folder=place.folder, mark=place.mark, wrapper=self.enter,
        )  # fmt: skip
        place.workers.append(worker)
        return worker

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
