"""Facts of this process: its users, its groups, and the environment that C code has."""

import ctypes
import os

from limpet.host.processes import LINUX

_REAL_AND_EFFECTIVE = 2
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_PR_GET_PDEATHSIG, _PR_GET_CHILD_SUBREAPER = 2, 37

_libc = ctypes.CDLL(None, use_errno=True)


def user_ids() -> tuple[int, ...]:
    """The users that this process has or may take again: real, effective, saved."""
    return os.getresuid() if hasattr(os, "getresuid") else (os.getuid(), os.geteuid())


def group_ids() -> tuple[int, ...]:
    """The groups that this process has or may take again: real, effective, saved."""
    return os.getresgid() if hasattr(os, "getresgid") else (os.getgid(), os.getegid())


def set_user_ids(ids: tuple[int, ...]) -> None:
    """Take users that `user_ids` returned."""
    (os.setresuid if len(ids) > _REAL_AND_EFFECTIVE else os.setreuid)(*ids)


def set_group_ids(ids: tuple[int, ...]) -> None:
    """Take groups that `group_ids` returned."""
    (os.setresgid if len(ids) > _REAL_AND_EFFECTIVE else os.setregid)(*ids)


def dumpable() -> int:
    """Whether this process is readable in /proc for its own user; a change of user ends that."""
    return int(_libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)) if LINUX else 1


def set_dumpable(value: int) -> None:
    """Restore the value that `dumpable` returned."""
    if LINUX and value in (0, 1):
        _libc.prctl(_PR_SET_DUMPABLE, value, 0, 0, 0)


def death_signal() -> int:
    """The signal that this process gets when its parent dies; 0 for none."""
    return _prctl_value(_PR_GET_PDEATHSIG)


def adopts_orphans() -> int:
    """Whether orphans among its descendants become its children (child subreaper)."""
    return _prctl_value(_PR_GET_CHILD_SUBREAPER)


def _prctl_value(option: int) -> int:
    answer = ctypes.c_int(0)
    if LINUX:
        _libc.prctl(option, ctypes.byref(answer), 0, 0, 0)
    return answer.value


def c_environment_pointers() -> list[int]:
    """The addresses of the variables in C code; they change only if one is set or deleted."""
    found: list[int] = []
    if ctypes.c_void_p.in_dll(_libc, "environ").value is not None:
        at = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
        while (place := at[len(found)]) is not None:
            found.append(place)
    return found


def c_environment() -> dict[bytes, bytes]:
    """The environment that C code has, and that a program started here gets."""
    lines = [ctypes.string_at(place) for place in c_environment_pointers()]
    return {name: value for name, _, value in (line.partition(b"=") for line in lines)}
