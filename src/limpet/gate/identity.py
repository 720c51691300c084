"""Names for what a reading is about: the host, and the control group that bounds it."""

import os
import re
from collections.abc import Mapping

from limpet.domain.queue import checked_name
from limpet.gate.measure.capacity import Bounds
from limpet.gate.measure.cgroup import ControlGroup

# The machine's own namespaces have these numbers, on every Linux.
_FIRST_UTS, _FIRST_PID = "uts:[4026531838]", "pid:[4026531836]"
_MARKS = (".dockerenv", "run/.containerenv", "run/systemd/container")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._:-]+")
_LONGEST = 100


def server_id(
    given: str | None, within: Bounds, boot: str, host_name: str, *, root: str = "/"
) -> str:
    """The name under which a host is published, and its reservations are kept.

    That is the name `given`, else the name of the host. A service with limits of its own counts as
    a host by itself, so its group's name is added. A container's name changes with each start, so
    there the name is made of the machine's boot and the limiting group; all containers of a machine
    without a limit share one name.
    """
    if given is not None:
        return checked_name(given, "server id")
    group = within.limiting
    if not in_container(root):
        if group is None:
            return _as_name(host_name)
        # In a control group namespace every group is called "/"; only the inode differs.
        own = group.name.strip("/").rpartition("/")[2] or _mark(group).lstrip("-")
        return _as_name(f"{host_name}:{own}")
    return _as_name(f"boot-{boot.replace('-', '')[:12]}" + ("" if group is None else _mark(group)))


def capacity_id(within: Bounds) -> str:
    """A name for what bounds this process, the same for all processes it bounds; fit for a file.

    It is "machine", or the inode of the limiting group, which every container sees alike until the
    machine restarts. It is part of the name of the monitor's lock.
    """
    group = within.limiting
    return "machine" if group is None else f"cgroup{_mark(group)}"


def in_container(root: str = "/", environment: Mapping[str, str] | None = None) -> bool:
    """Whether the host name is that of a container."""
    uts = _link(os.path.join(root, "proc/self/ns/uts"))
    if uts == _FIRST_UTS:
        return False  # the host name is the machine's, whatever files an image left behind
    pid = _link(os.path.join(root, "proc/self/ns/pid"))
    return (
        any(os.path.exists(os.path.join(root, mark)) for mark in _MARKS)
        or "KUBERNETES_SERVICE_HOST" in (os.environ if environment is None else environment)
        or (uts is not None and pid not in (None, _FIRST_PID))
    )


def _mark(group: ControlGroup) -> str:
    # In version 1 each controller has inodes of its own.
    return f"{'' if group.version == 2 else '-' + group.controller}-{group.inode or 0}"


def _as_name(text: str) -> str:
    name = _NOT_IN_A_NAME.sub("-", text).lstrip("._:-")[:_LONGEST]
    return checked_name(name or "host", "server id")


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
