"""Records calls by which an attempt changes its process, so that only their effects are checked.

The functions are replaced in their modules before the app is imported, so code that imports one by
name gets the recording one. Calls from C code are not recorded: because of them `process_state`
compares the whole process now and then.
"""

import functools
import os
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, Final

LIMITS: Final = "limits"
ROOT: Final = "root"
NAMESPACES: Final = "namespaces"
PRIORITY: Final = "priority"
PROCESSORS: Final = "processors"
GROUPS: Final = "groups"
HANDLERS: Final = "handlers"
TIMERS: Final = "timers"
ENVIRONMENT: Final = "environment"
FOLDER: Final = "folder"
WAYS: Final = "ways"

# The functions that change each topic; not every system and every Python has all of them.
_CALLS: tuple[tuple[ModuleType, str, tuple[str, ...]], ...] = (
    (resource, LIMITS, ("setrlimit", "prlimit")),
    (os, ROOT, ("chroot",)),
    (os, NAMESPACES, ("unshare", "setns")),
    (os, PRIORITY, ("nice", "setpriority", "sched_setscheduler", "sched_setparam")),
    (os, PROCESSORS, ("sched_setaffinity",)),
    (os, GROUPS, ("setgroups", "initgroups")),
    (os, FOLDER, ("chdir", "fchdir")),
    (os, WAYS, ("dup2", "closerange")),
    (signal, HANDLERS, ("signal",)),
    (signal, TIMERS, ("setitimer",)),
)
_IMPORTING = "<frozen importlib._bootstrap"

# The topics of the calls made since this set was last cleared.
made: set[str] = set()
# The variables that were set or deleted since then; and, with their values, those that a module set
# while it was imported: they stay.
variables: set[bytes] = set()
imported: dict[bytes, bytes] = {}

_putenv, _unsetenv = os.putenv, os.unsetenv


def watch() -> None:
    """Record these calls from now on, in this process and in those that it forks."""
    if hasattr(os.putenv, "__wrapped__"):
        return
    for module, topic, names in _CALLS:
        for name in names:
            if (call := getattr(module, name, None)) is not None:
                setattr(module, name, _named(module, name, _noting(call, topic)))
    # `os.environ` calls these two for each change.
    os.putenv = _named(os, "putenv", functools.wraps(_putenv)(_noting_putenv))
    os.unsetenv = _named(os, "unsetenv", functools.wraps(_unsetenv)(_noting_unsetenv))


def forget() -> None:
    """Forget all calls: the present state is the one to restore."""
    made.clear()
    variables.clear()
    imported.clear()


def _noting(call: Callable[..., Any], topic: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def noting(*args: Any, **options: Any) -> Any:
        made.add(topic)
        return call(*args, **options)

    return noting


def _named(module: ModuleType, name: str, call: Callable[..., Any]) -> Any:
    # By this name the function can be pickled, as a child that `multiprocessing` spawns may need.
    call.__module__, call.__qualname__ = module.__name__, name
    return call


def _noting_putenv(name: Any, value: Any, /) -> None:
    _putenv(name, value)
    key = os.fsencode(name)
    made.add(ENVIRONMENT)
    variables.add(key)
    if _is_importing(sys._getframe(1)):
        imported[key] = os.fsencode(value)


def _noting_unsetenv(name: Any, /) -> None:
    _unsetenv(name)
    key = os.fsencode(name)
    made.add(ENVIRONMENT)
    variables.add(key)
    if _is_importing(sys._getframe(1)):
        imported.pop(key, None)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported around this frame."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
