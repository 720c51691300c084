"""The state that jobs share in a process, as it was before the first job; restores changes.

After each attempt, what is cheap to read and likely to change is compared. After an attempt that
made a call which `watched_calls` records, what that call changes is compared too. Everything is
compared now and then, because calls from C code are not recorded. A change that cannot be undone
makes the process unfit for further jobs.
"""

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from limpet.host import itself, processes
from limpet.worker.executor import watched_calls as calls

# Longest time for which a change made by C code goes unnoticed while jobs run.
LOOK_SECONDS = 0.1
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_LIMITS = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
)
_NAMESPACES = (
    "cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts",
)  # fmt: skip
# An administrator may change these from outside (taskset, renice), and that change stays: they are
# put back only after a job has changed them by a call in Python.
_SET_FROM_OUTSIDE = frozenset({calls.PROCESSORS, calls.PRIORITY})
# Lines of /proc/self/status that show what a process has given up for good.
_PRIVILEGES = (
    b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb", b"NoNewPrivs", b"Seccomp",
    b"Seccomp_filters",
)  # fmt: skip

_alarm, _blocked = _signal.alarm, _signal.pthread_sigmask
# The fastest function that the system has: these are called after every attempt.
_users = getattr(os, "getresuid", itself.user_ids)
_groups = getattr(os, "getresgid", itself.group_ids)
_umask, _BLOCK = os.umask, int(signal.SIG_BLOCK)


class Aspect(NamedTuple):
    """One part of the state that jobs share.

    `read`: the present value, None where this system has none. `put_back`: called with the value
    of then and of now; may raise. `in_use`: a job that runs may depend on its own change, so in a
    process of many jobs the value is put back only while none of them runs.
    """

    name: str
    description: str
    read: Callable[[], Any]
    put_back: Callable[[Any, Any], None]
    in_use: bool = False


class ProcessState:
    """The state of this process before its first job."""

    def __init__(self, ways: Iterable[int] = ()) -> None:
        """`ways`: the descriptors that connect the executor and its supervisor."""
        self._parent = os.getppid()
        self._ways = tuple(ways)
        self._environment = os.environ
        # Comparing `os.environ` itself takes fifty times as long.
        self._data: Mapping[bytes, bytes] = getattr(os.environ, "_data", os.environb)
        self._variables: dict[bytes, bytes] = dict(self._data)
        self._folder_identity, self._folder_path = _identity("."), _folder()
        self._dumpable = itself.dumpable()
        self._pointers: list[int] = []
        self._opened: dict[str, int] = {}
        for name in ("status", "oom_score_adj", "ns"):
            with contextlib.suppress(OSError):
                self._opened[name] = os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC)
        calls.forget()
        self._read_status: dict[bytes, bytes] | None = None
        self._aspects = {aspect.name: aspect for aspect in self._all_aspects()}
        self._before = {name: _read(aspect) for name, aspect in self._aspects.items()}
        self._users, self._groups = _users(), _groups()
        self._mask = os.umask(0o077)
        os.umask(self._mask)
        self._blocked_signals = _blocked(_BLOCK, ())
        self._looked_at = time.monotonic()
        self._unseen = False  # an attempt has ended since the last full comparison

    @property
    def is_overdue(self) -> bool:
        """Whether everything must be compared before the next attempt begins."""
        return self._unseen and time.monotonic() - self._looked_at >= LOOK_SECONDS

    def restore(self) -> str:
        """After an attempt in a lane: undo its changes; return what cannot be undone."""
        _alarm(0)
        if (
            _users() != self._users
            or _groups() != self._groups
            or _umask(self._mask) != self._mask
            or _blocked(_BLOCK, ()) != self._blocked_signals
            or os.environ is not self._environment
            or time.monotonic() - self._looked_at >= LOOK_SECONDS
        ):
            return self.look(idle=True)
        self._unseen = True
        if calls.made:
            return self._compare(calls.made & self._aspects.keys(), idle=True)
        return ""

    def look(self, *, idle: bool) -> str:
        """Compare all that only jobs change, and put it back; return what cannot be undone.

        Unless the process is `idle`, aspects that a running job may depend on are left as they are.
        """
        self._looked_at, self._unseen = time.monotonic(), False
        return self._compare(self._aspects.keys() - (_SET_FROM_OUTSIDE - calls.made), idle=idle)

    def _compare(self, names: Iterable[str], *, idle: bool) -> str:
        self._read_status = None
        changed = [
            aspect
            for name, aspect in self._aspects.items()
            if name in names and _read(aspect) != self._before[name]
        ]
        left = []
        for aspect in changed:
            if aspect.in_use and not idle:
                continue
            with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
                aspect.put_back(self._before[aspect.name], _read(aspect))
            self._read_status = None
            if _read(aspect) != self._before[aspect.name]:
                left.append(aspect.description)
        if idle:
            calls.made.clear()
        return ", ".join(left)

    def _all_aspects(self) -> tuple[Aspect, ...]:
        """All aspects in the order in which they are put back: rights first, others need them."""
        of_linux: tuple[Aspect, ...] = ()
        if processes.LINUX:
            of_linux = (
                Aspect("groups", "its groups", _sorted_groups, lambda then, _: os.setgroups(then)),
                Aspect("priority", "its priority", self._priority, self._set_priority),
                Aspect("oom", "its score for the memory killer", self._oom, self._set_oom),
                Aspect("processors", "its processors", _processors, _set_processors),
                Aspect("death", "its death with its parent", itself.death_signal, _die_with_parent),
                Aspect("orphans", "its care for orphans", itself.adopts_orphans, _adopt_orphans),
                Aspect("files", "its open files", _has_free_descriptors, _never, in_use=True),
                Aspect("privileges", "its privileges", self._privileges, _never),
                Aspect("namespaces", "its namespaces", self._namespaces, _never),
                Aspect(
                    "c environment", "its environment", self._c_env, self._set_c_env, in_use=True
                ),
            )
        return (
            Aspect("users", "its user", _users, self._set_users),
            Aspect("group", "its group", _groups, lambda then, _: itself.set_group_ids(then)),
            Aspect("limits", "its resource limits", _limits, _set_limits),
            *of_linux,
            Aspect("umask", "its umask", self._umask, _set_umask, in_use=True),
            Aspect("blocked", "its signal mask", _mask_of_signals, _block_again),
            Aspect("handlers", "its signal handlers", _handlers, _handle_again),
            # After "handlers": `_ignore_again` reads the handlers that Python knows.
            Aspect("ignored", "the signals that it ignores", self._ignored, _ignore_again),
            Aspect("timers", "its timers", _timers, _stop_timers),
            Aspect("environment", "its environment", self._env, self._set_env, in_use=True),
            Aspect("root", "its root folder", lambda: _identity("/"), _never),
            Aspect("folder", "its folder", self._where, _go_back, in_use=True),
            Aspect("streams", "its standard streams", _streams, _never, in_use=True),
            Aspect("ways", "its way to the supervisor", self._descriptors, _never),
        )

    # -- rights

    def _set_users(self, then: Any, now: Any) -> None:
        itself.set_user_ids(then)
        # A change of user clears the signal at the parent's death, and hides the process in /proc.
        processes.die_with_parent()
        itself.set_dumpable(self._dumpable)
        if os.getppid() != self._parent:
            os._exit(1)

    def _privileges(self) -> Any:
        return {name: value for name, value in self._status.items() if name in _PRIVILEGES}

    def _namespaces(self) -> Any:
        return [_link(name, self._opened["ns"]) for name in _NAMESPACES]

    @property
    def _status(self) -> dict[bytes, bytes]:
        """/proc/self/status as a mapping, read once for all aspects that use it."""
        if self._read_status is None:
            self._read_status = self._kernel_status()
        return self._read_status

    def _kernel_status(self) -> dict[bytes, bytes]:
        if "status" not in self._opened:
            return {}
        with contextlib.suppress(OSError):
            lines = os.pread(self._opened["status"], 16384, 0).splitlines()
            return dict(line.split(b":\t", 1) for line in lines if b":\t" in line)
        return {}

    # -- what the kernel grants the process

    def _priority(self) -> Any:
        return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)

    def _set_priority(self, then: Any, now: Any) -> None:
        niceness, policy = then
        if now[1] != policy:
            os.sched_setscheduler(0, policy, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, niceness)

    def _oom(self) -> Any:
        return os.pread(self._opened["oom_score_adj"], 16, 0)

    def _set_oom(self, then: Any, now: Any) -> None:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(then)

    def _ignored(self) -> Any:
        return self._status.get(b"SigIgn")

    def _umask(self) -> Any:
        """The umask, read without setting it: a thread of another job may be creating a file."""
        return self._status.get(b"Umask", b"").decode() or None

    # -- environment and folder

    def _env(self) -> Any:
        """Whether the variables are unchanged; those that a module set at its import stay."""
        added = calls.imported.items()
        self._variables.update((n, v) for n, v in added if n not in self._variables)
        calls.imported.clear()
        same = os.environ is self._environment and self._data == self._variables
        return same and not calls.variables

    def _set_env(self, then: Any, now: Any) -> None:
        os.environ = self._environment  # noqa: B003 - a job may have replaced the object
        kept, found = self._variables, dict(self._data)
        names = calls.variables | kept.keys() | found.keys()
        zone = b"TZ" in calls.variables or found.get(b"TZ") != kept.get(b"TZ")
        for name in names:
            if name not in kept:
                os.environb.pop(name, None)
                os.unsetenv(name)
            elif name in calls.variables or found.get(name) != kept[name]:
                os.environb[name] = kept[name]
        if zone:
            time.tzset()  # the C library caches the time zone
        calls.variables.clear()

    def _c_env(self) -> Any:
        """Whether C code finds the first values of all variables; what C code added stays."""
        pointers = itself.c_environment_pointers()
        if pointers != self._pointers:
            found = itself.c_environment()
            if any(found.get(name) != value for name, value in self._variables.items()):
                return False
            self._pointers = pointers
        return True

    def _set_c_env(self, then: Any, now: Any) -> None:
        found = itself.c_environment()
        for name, value in self._variables.items():
            if found.get(name) != value:
                os.putenv(name, value)
        calls.variables.clear()

    def _where(self) -> Any:
        try:
            return os.getcwd()
        except OSError:
            # The folder was removed, maybe before the first job: it is still the same folder.
            return self._folder_path if _identity(".") == self._folder_identity else None

    # -- the way to the supervisor

    def _descriptors(self) -> Any:
        return [_identity(number) for number in self._ways]


def _read(aspect: Aspect) -> Any:
    """The value of an aspect; an error counts as a value, and must stay the same."""
    try:
        return aspect.read()
    except (OSError, KeyError, ValueError) as error:
        return f"{type(error).__name__} {getattr(error, 'errno', '')}"


def _streams() -> Any:
    return [_identity(number) for number in (0, 1, 2)]


def _has_free_descriptors() -> bool:
    """Whether enough file descriptors are free: jobs may leave open at most 80 % of the limit."""
    return len(os.listdir("/proc/self/fd")) < resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 0.8


def _die_with_parent(then: Any, now: Any) -> None:
    processes.die_with_parent(then)


def _adopt_orphans(then: Any, now: Any) -> None:
    if then:
        processes.adopt_orphans()


def _never(then: Any, now: Any) -> None:
    """Leave it: it cannot be undone."""


def _identity(path: str | int) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _folder() -> str:
    """The current folder; empty if it was removed, because then no path leads back to it."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _link(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return ""  # an older kernel


def _sorted_groups() -> Any:
    return sorted(os.getgroups())


def _limits() -> Any:
    return [resource.getrlimit(number) for number in _LIMITS]


def _set_limits(then: Any, now: Any) -> None:
    for number, before, after in zip(_LIMITS, then, now, strict=True):
        if before != after:
            resource.setrlimit(number, before)


def _processors() -> Any:
    return os.sched_getaffinity(0)


def _set_processors(then: Any, now: Any) -> None:
    os.sched_setaffinity(0, then)


def _set_umask(then: Any, now: Any) -> None:
    os.umask(int(then, 8))


def _mask_of_signals() -> Any:
    return _blocked(_BLOCK, ())


def _block_again(then: Any, now: Any) -> None:
    _blocked(signal.SIG_SETMASK, then)


def _handlers() -> Any:
    return [_signal.getsignal(number) for number in _SIGNALS]


def _handle_again(then: Any, now: Any) -> None:
    for number, before, after in zip(_SIGNALS, then, now, strict=True):
        if before is not after:
            _signal.signal(number, before)


def _ignore_again(then: Any, now: Any) -> None:
    """Set Python's own handler anew for each signal that C code began or ceased to ignore."""
    differs = int(then, 16) ^ int(now, 16)
    for number in _SIGNALS:
        if differs >> (number - 1) & 1:
            _signal.signal(number, _signal.getsignal(number))


def _timers() -> Any:
    return any(signal.getitimer(timer)[0] for timer in _TIMERS)


def _stop_timers(then: Any, now: Any) -> None:
    for timer in _TIMERS:
        _signal.setitimer(timer, 0)


def _go_back(then: Any, now: Any) -> None:
    os.chdir(then)
