"""Who this process is: its users and groups, and the environment as C code has it."""

import ctypes
import os

from limpet.host.processes import LINUX

_REAL_AND_EFFECTIVE = 2
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_PR_GET_PDEATHSIG, _PR_GET_CHILD_SUBREAPER = 2, 37

_libc = ctypes.CDLL(None, use_errno=True)


def user_ids() -> tuple[int, ...]:
    """The users that this process is, and may become again: real, effective, saved."""
    return os.getresuid() if hasattr(os, "getresuid") else (os.getuid(), os.geteuid())


def group_ids() -> tuple[int, ...]:
    """The same of groups."""
    return os.getresgid() if hasattr(os, "getresgid") else (os.getgid(), os.getegid())


def set_user_ids(ids: tuple[int, ...]) -> None:
    """Be these users, as `user_ids` said them."""
    (os.setresuid if len(ids) > _REAL_AND_EFFECTIVE else os.setreuid)(*ids)


def set_group_ids(ids: tuple[int, ...]) -> None:
    """The same of groups."""
    (os.setresgid if len(ids) > _REAL_AND_EFFECTIVE else os.setregid)(*ids)


def dumpable() -> int:
    """Whether this process shows itself in /proc to its own user; a change of user ends that."""
    return int(_libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)) if LINUX else 1


def set_dumpable(value: int) -> None:
    """Let it be again as `dumpable` said it was."""
    if LINUX and value in (0, 1):
        _libc.prctl(_PR_SET_DUMPABLE, value, 0, 0, 0)


def death_signal() -> int:
    """The signal that it gets when its parent dies; 0 for none."""
    return _asked_of_the_kernel(_PR_GET_PDEATHSIG)


def adopts_orphans() -> int:
    """Whether what its descendants leave behind becomes its child."""
    return _asked_of_the_kernel(_PR_GET_CHILD_SUBREAPER)


def _asked_of_the_kernel(option: int) -> int:
    answer = ctypes.c_int(0)
    if LINUX:
        _libc.prctl(option, ctypes.byref(answer), 0, 0, 0)
    return answer.value


def c_environment_pointers() -> list[int]:
    """Where C code finds each variable: as long as none is set or deleted, in the same places."""
    found: list[int] = []
    if ctypes.c_void_p.in_dll(_libc, "environ").value is not None:
        at = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
        while (place := at[len(found)]) is not None:
            found.append(place)
    return found


def c_environment() -> dict[bytes, bytes]:
    """The environment as C code has it, and as a program gets it that is started here."""
    lines = [ctypes.string_at(place) for place in c_environment_pointers()]
    return {name: value for name, _, value in (line.partition(b"=") for line in lines)}
