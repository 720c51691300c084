"""Everything that differs between operating systems: death, descent, names, timers, namespaces.

Standard library only: the guardian imports it. `WEAKER`: what a system lacks, logged at the start.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator

LINUX = sys.platform == "linux"
SUPPORTED = LINUX or sys.platform == "darwin"

WEAKER: tuple[str, ...] = (
    ()
    if LINUX
    else (
        "a frozen guardian and supervisor are not ended by the kernel, so a worker that is stopped "
        "as a whole may go on for a moment after it is continued",
        "daemons that a job leaves behind are found by their environment only",
        "the use of memory is checked only between jobs",
    )
)

# STOP_SIGNAL makes an executor's main thread check whether it must stop; REPORT_SIGNAL makes it
# report what blocks it.
STOP_SIGNAL = signal.SIGRTMIN + 5 if LINUX else signal.SIGUSR1
REPORT_SIGNAL = signal.SIGRTMIN + 6 if LINUX else signal.SIGUSR2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_REC, _MS_SLAVE, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x4000, 0x80000, 0x2, 0x4, 0x8
_CLOCK_MONOTONIC, _CLOCK_BOOTTIME = 1, 7
_PF_KTHREAD = 0x00200000

_libc = ctypes.CDLL(None, use_errno=True)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, value: object) -> None:
    if LINUX and _libc.prctl(option, value, 0, 0, 0) != 0:
        raise _failed("prctl")


def set_name(name: str) -> None:
    """Show the process under this name, of at most 15 characters, in `ps` and `top`."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (child subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Get a signal when the parent dies; the caller checks that it was not dead before."""
    _prctl(_PR_SET_PDEATHSIG, int(signal_number))


def lower_priority() -> None:
    """Let the supervisor run first, and let the OOM killer prefer this process as its target."""
    with contextlib.suppress(OSError):
        os.nice(10)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("300")
    lower_group(os.getpid())


def lower_group(pid: int) -> bool:
    """Lower the priority of a process's session group; False if the caller must try again later.

    Where the kernel groups processes by session, niceness counts only within the group. Without
    privileges such groups can be changed at most ten times a second, by all processes together.
    """
    try:
        with open(f"/proc/{pid}/autogroup", "w") as file:
            file.write("10")
    except BlockingIOError:
        return False
    except OSError:
        pass  # this kernel has no such groups
    return True


def thread_count() -> int:
    """How many threads this process has, including those of C libraries."""
    if LINUX:
        return len(os.listdir("/proc/self/task"))
    import threading

    return threading.active_count()


# -- starting

# The command line before the module that runs as a process of the worker.
BEGIN = (sys.executable, "-m", "limpet.worker.wire.begin")
# Signals that a terminal or a service manager sends to the whole group.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hold_signals() -> None:
    """Block signals to the whole group until this process has its handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)


def take_signals() -> None:
    """Unblock signals to the whole group; a blocked one arrives now, also at children."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)


def withstand(*numbers: int) -> None:
    """Give signals a handler that does nothing; children would inherit SIG_IGN."""
    for number in numbers:
        signal.signal(number, lambda number, frame: None)


def spawn(
    module: str,
    environment: dict[str, str],
    descriptors: Iterable[int],
    *,
    own_session: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start a process of the worker; signals to its group wait until it calls `take_signals`."""
    hold_signals()
    try:
        return subprocess.Popen(
            [*BEGIN, module],
            env=environment,
            pass_fds=tuple(descriptors),
            start_new_session=own_session,
        )
    finally:
        take_signals()


def allow_many_files() -> int:
    """Raise this process's limit of open files as far as allowed; the answer is the new limit."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else files


# -- the kernel timer


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("pad", ctypes.c_byte * 48),
    )


class KernelTimer:
    """Kills this process if it is not re-armed in time, even while the process is stopped."""

    def __init__(self, seconds: float, *, asleep: bool) -> None:
        """`asleep`: whether time counts while the machine sleeps."""
        self._timer: ctypes.c_void_p | None = None
        self._seconds = seconds
        if LINUX:
            timer = ctypes.c_void_p()
            event = _Sigevent(signo=signal.SIGKILL, notify=0)
            clock = _CLOCK_BOOTTIME if asleep else _CLOCK_MONOTONIC
            if _timer_library().timer_create(clock, ctypes.byref(event), ctypes.byref(timer)) != 0:
                raise _failed("timer_create")
            self._timer = timer
        self.rearm()

    def rearm(self, seconds: float | None = None) -> None:
        """Restart the timer, for `seconds` if given; 0 switches it off."""
        if self._timer is None:
            return
        wanted, spec = self._seconds if seconds is None else seconds, _Itimerspec()
        spec.value.seconds, spec.value.nanoseconds = int(wanted), int(wanted % 1 * 1e9)
        if _timer_library().timer_settime(self._timer, 0, ctypes.byref(spec), None) != 0:
            raise _failed("timer_settime")


def _timer_library() -> ctypes.CDLL:
    # In glibc itself since 2.34, in librt before.
    return _libc if hasattr(_libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)


# -- namespaces

# The exit code of a zygote that could not show its own processes in /proc.
NO_OWN_PROC = 72


def enter_pid_namespace() -> bool:
    """Make the next child PID 1 of a new pid namespace; False if that is not allowed.

    The child must then call `mount_own_proc`. No user namespace is made, even where that would be
    allowed: in one, a job's programs could neither change user nor keep the groups of files.
    """
    return LINUX and _libc.unshare(_CLONE_NEWPID | _CLONE_NEWNS) == 0


def mount_own_proc() -> bool:
    """Show this namespace's processes in /proc; mounts made outside still arrive here."""
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return False
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    return bool(_libc.mount(b"proc", b"/proc", b"proc", flags, None) == 0)


# -- descent


def has_children() -> bool:
    """Whether this process has a child, dead or alive; costs one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children_of_self() -> list[int]:
    """The children of this process, including dead ones that wait to be reaped."""
    if not has_children():
        return []
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        me = os.getpid()
        return [pid for pid, parent in _parents().items() if parent == me]
    return found


def descendants(root: int, but: Container[int] = ()) -> set[int]:
    """Every process below `root` that this namespace shows, without `but` and those below it."""
    below: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    wanted = [root]
    while wanted:
        for pid in below.get(wanted.pop(), ()):
            if pid not in found and pid not in but:
                found.add(pid)
                wanted.append(pid)
    return found


def _parents() -> dict[int, int]:
    """Pid → parent."""
    if not LINUX:
        return _parents_by_ps()
    known = ((pid, stat_fields(pid)) for pid in pids())
    return {pid: int(fields[1]) for pid, fields in known if fields}


def _parents_by_ps() -> dict[int, int]:
    text = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=True).stdout
    pairs = (line.split() for line in text.splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}


def pids() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> bytes:
    """The environment that a process shows; raises if this user may not read it."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def stat_fields(pid: int) -> list[bytes]:
    """The kernel's fields of a process: state, parent and so on; empty if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return []
    # The name before the fields, in parentheses, may itself hold any character.
    return text[text.rindex(b")") + 2 :].split()


def is_zombie(pid: int) -> bool:
    """Whether the process is dead and only waits to be reaped, or is gone.

    A process whose first thread has ended shows as a zombie too while its other threads go on.
    """
    fields = stat_fields(pid)
    return LINUX and (not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1))


def is_becoming_another(pid: int) -> bool:
    """Whether the process is in an exec, and so shows the environment of neither program."""
    fields = stat_fields(pid)
    # The address of the environment is 0 then; dead processes and kernel threads have 0 too.
    return (
        len(fields) > 47
        and fields[47] == b"0"
        and not (fields[0] in (b"Z", b"X") or int(fields[6]) & _PF_KTHREAD)
    )


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped (SIGSTOP, a debugger)."""
    return stat_fields(pid)[:1] in ([b"T"], [b"t"])


def reaped() -> Iterator[tuple[int, int]]:
    """Reap each dead child: its pid, and its wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def kill(pids: Iterable[int], signal_number: int = signal.SIGKILL) -> None:
    """Send a signal to processes that may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_number)


def end_all(
    find: Callable[[], Iterable[int]],
    seconds: float = 5.0,
    between: Callable[[], None] | None = None,
) -> bool:
    """Kill the processes that `find` returns until it returns none; False if time ran out.

    `between` is called after each look: some callers must show that they are alive.
    """
    until = time.monotonic() + seconds
    pause_seconds = 0.001
    while True:
        found = {pid for pid in find() if not is_zombie(pid)}
        if between is not None:
            between()
        if not found:
            return True
        if time.monotonic() > until:
            return False
        kill(found)
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, 0.02)


def resident_bytes(pid: int) -> int:
    """How many bytes of memory the process holds, or 0 if that cannot be read."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def out_of_memory_kills() -> int:
    """How many processes the OOM killer has ended, in this cgroup or on the whole machine."""
    for find in (_events_of_cgroup, lambda: "/proc/vmstat"):
        with contextlib.suppress(OSError, StopIteration, ValueError), open(find()) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def _events_of_cgroup() -> str:
    with open("/proc/self/cgroup") as file:
        own = next(line.rstrip("\n")[3:] for line in file if line.startswith("0::"))
    return f"/sys/fs/cgroup{own}/memory.events"
