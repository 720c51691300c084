"""Tasks that change their process, and one that says what it finds."""

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from worker.base import app, once
from worker.notes import note

NOBODY = 65534
# Whoever runs longer than that is looked at whatever it called.
LONG_SECONDS = 0.15
_CAP_SYS_RESOURCE, _CLONE_NEWUTS, _PR_SET_NO_NEW_PRIVS = 24, 0x04000000, 38
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_PR_SET_CHILD_SUBREAPER, _PR_GET_SUBREAPER = 36, 37
_SUBMODULE = "import os\nos.environ['SET_ON_IMPORT'] = 'kept'\nos.environ['PRESENT'] = 'changed'\n"


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _namespaces() -> dict[str, str]:
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}


def _c_environment() -> dict[bytes, bytes]:
    """As a program that is started here without an environment of its own gets it."""
    found: dict[bytes, bytes] = {}
    if ctypes.c_void_p.in_dll(_libc(), "environ").value is not None:
        at, place = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc(), "environ"), 0
        while (line := at[place]) is not None:
            name, _, value = line.partition(b"=")
            found[name] = value
            place += 1
    return found


def seen() -> dict[str, Any]:
    """Everything of this process that a job before may have changed."""
    root = os.stat("/")
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    with open("/proc/self/oom_score_adj") as file:
        oom = file.read()
    names = ("Umask", "SigIgn", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
    return {
        "users": os.getresuid(),
        "groups": (os.getresgid(), sorted(os.getgroups())),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "handlers": [str(signal.getsignal(n)).partition(" at ")[0] for n in range(1, 65)],
        "timer": signal.getitimer(signal.ITIMER_VIRTUAL),
        "folder": os.getcwd(),
        "zone": (time.tzname, time.localtime(0).tm_gmtoff),
        "environment": dict(os.environ),
        "c environment": {
            os.fsdecode(name): os.fsdecode(value) for name, value in _c_environment().items()
        },
        "limits": [resource.getrlimit(number) for number in range(16)],
        "root": (root.st_dev, root.st_ino),
        "namespaces": _namespaces(),
        "priority": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), oom),
        "processors": sorted(os.sched_getaffinity(0)),
        "ties": [_asked_of_the_kernel(_PR_GET_PDEATHSIG), _asked_of_the_kernel(_PR_GET_SUBREAPER)],
        "streams": [os.fstat(number).st_ino for number in (0, 1, 2)],
        **{name: status[name] for name in names},
    }


def _lower_every_limit() -> None:
    for number in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(number, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))


def _drop_user() -> None:
    os.setgroups([NOBODY])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _ignore_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _chroot() -> None:
    os.makedirs("elsewhere", exist_ok=True)
    os.chroot("elsewhere")


def _c_chroot() -> None:
    os.makedirs("elsewhere", exist_ok=True)
    assert _libc().chroot(b"elsewhere") == 0


def _replace_environment() -> None:
    os.environ = {"PATH": "/nowhere"}  # type: ignore[assignment]  # noqa: B003


def _change_environment() -> None:
    os.environ["PRESENT"] = "changed"
    os.environ["ADDED"] = "yes"
    os.environ.pop("TO_DELETE", None)


def _change_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGRTMIN + 5})


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _leak_descriptors() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    while len(os.listdir("/proc/self/fd")) < limit * 0.9:
        for _ in range(limit // 10):
            os.dup(0)


def _asked_of_the_kernel(option: int) -> int:
    answer = ctypes.c_int(0)
    _libc().prctl(option, ctypes.byref(answer), 0, 0, 0)
    return answer.value


# What is changed, by root and by anybody, and whether a new process is needed to have it back.
BY_ANYBODY: dict[str, Callable[[], Any]] = {
    "umask": lambda: os.umask(0o777),
    "umask by C code": lambda: _libc().umask(0o777),
    "signal mask": _block,
    "handlers": _ignore_children,
    "timers": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 1000),
    "alarm": lambda: signal.alarm(1000),
    "folder": lambda: os.chdir("/"),
    "environment": _change_environment,
    "environment cleared": os.environ.clear,
    "time zone": _change_zone,
    "environment replaced": _replace_environment,
    "environment by putenv": lambda: os.putenv("PRESENT", "changed"),
    "environment by C code": lambda: _libc().setenv(b"PRESENT", b"changed", 1),
    "environment cleared by C code": lambda: _libc().clearenv(),
    "soft limit": lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (5, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    ),
    "processors": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
    "death with its parent": lambda: _libc().prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0),
    "care for orphans": lambda: _libc().prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0),
}
BY_ROOT: dict[str, Callable[[], Any]] = {
    "effective user": lambda: os.seteuid(NOBODY),
    "effective group": lambda: os.setegid(NOBODY),
    "supplementary groups": lambda: os.setgroups([1, 2, 3]),
    "niceness": lambda: os.nice(3),
    "memory killer": lambda: _write("/proc/self/oom_score_adj", "900"),
}
# These cannot be put back: the lane is replaced.
FOR_EVER: dict[str, Callable[[], Any]] = {
    "no new privileges": lambda: _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    "standard output": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 1),
    "open files": _leak_descriptors,
}
FOR_EVER_BY_ROOT: dict[str, Callable[[], Any]] = {
    "user": _drop_user,
    "root": _chroot,
    "root by C code": _c_chroot,
    "namespace": lambda: _libc().unshare(_CLONE_NEWUTS),
}


def _all_at_once() -> None:
    """Everything that can be put back; rights last, without which the rest could not be done."""
    by_root = {} if os.geteuid() else {n: BY_ROOT[n] for n in reversed(BY_ROOT)}
    last = by_root.pop("effective user", lambda: None)
    for change in (*by_root.values(), *BY_ANYBODY.values(), last):
        change()


EVERY = {
    **BY_ANYBODY, **BY_ROOT, **FOR_EVER, **FOR_EVER_BY_ROOT,
    "hard limits": _lower_every_limit, "all at once": _all_at_once,
}  # fmt: skip


def may_raise_limits() -> bool:
    """Whether a hard limit that was lowered can be raised here; not every root may."""
    with open("/proc/self/status") as file:
        rights = next(line.split()[1] for line in file if line.startswith("CapEff"))
    return bool(int(rights, 16) >> _CAP_SYS_RESOURCE & 1)


@app.task(retry=once)
def says_what_it_sees() -> str:
    return json.dumps({"pid": os.getpid(), **seen()})


@app.task(retry=once)
async def says_what_it_sees_async() -> str:
    return json.dumps({"pid": os.getpid(), **seen()})


@app.task(retry=once)
def changes_its_process(how: str, seconds: float) -> str:
    EVERY[how]()
    time.sleep(seconds)
    return how


@app.task(retry=once)
async def changes_its_process_async(how: str, path: str) -> str:
    EVERY[how]()
    with contextlib.suppress(OSError):
        note(path, "changed")
    return how


@app.task(retry=once)
async def waits_for_a_file(path: str, word: str) -> int:
    note(path, "begin")
    while not os.path.exists(word):  # noqa: ASYNC240 - does not wait
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task(retry=once)
def imports_a_module(folder: str, name: str) -> str:
    """A module of a kind that many libraries are: it sets a variable while it is imported."""
    import importlib
    import sys

    with open(f"{folder}/{name}.py", "w") as file:
        file.write(_SUBMODULE)
    sys.path.insert(0, folder)
    try:
        importlib.import_module(name)
    finally:
        sys.path.remove(folder)
    os.environ["ADDED"] = "by the task"
    return os.environ["SET_ON_IMPORT"]


@app.task(retry=once)
def cuts_its_ways(path: str) -> str:
    """Puts other sockets in the place of every one that it finds; nobody hears of its end."""
    note(path, "run")
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                ours, theirs = socket.socketpair()
                os.dup2(ours.fileno(), number)
                ours.detach()
                theirs.detach()
    return "cut"
