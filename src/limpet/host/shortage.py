"""Explains in one sentence what a failed process lacked, and what to raise or change.

Standard library only, because the guardian imports it.
"""

import errno
import os
import sys

if sys.platform != "win32":
    import resource

# With lower limits a worker does not become ready, or not for long: open files, processes and
# threads of its user, and addresses (in bytes) that its threads reserve.
LEAST_FILES, LEAST_PROCESSES, LEAST_ADDRESS_BYTES = 64, 40, 96 << 20

# Error numbers of the kernel when the machine, a limit or a right of this process falls short.
_LACKS = frozenset(
    {
        errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT,
        errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    }
)  # fmt: skip

_WORDS_OF_IMPORTS = {
    "Too many open files": errno.EMFILE,
    "Cannot allocate memory": errno.ENOMEM,
    "failed to map segment": errno.ENOMEM,
}


def is_lack(error: BaseException) -> bool:
    """Whether the error shows that the machine lacks something.

    Any other error is a defect and needs its traceback. Drivers, and imports of drivers, raise such
    errors too.
    """
    match error:
        case MemoryError():
            return True
        case ImportError():
            return _number_of_import(error) is not None
        case RuntimeError():
            return "new thread" in str(error)
        case OSError():
            return error.errno in _LACKS
    return False


def _number_of_import(error: ImportError) -> int | None:
    text = str(error)
    return next((number for part, number in _WORDS_OF_IMPORTS.items() if part in text), None)


def sentence_of(error: BaseException) -> str:
    """What went wrong, and what to do, as far as the error shows it."""
    if isinstance(error, MemoryError):
        return _of_memory()
    if isinstance(error, RuntimeError):
        return _of_processes() if "new thread" in str(error) else _plain(error)
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, ImportError):
        number = _number_of_import(error)
    match number:
        case errno.EMFILE:
            return (
                f"this process may not have more than {_limit(resource.RLIMIT_NOFILE)} files open; "
                f"raise that limit (ulimit -n 1024)."
            )
        case errno.ENFILE:
            return "this machine may not have more files open; raise its fs.file-max."
        case errno.EAGAIN:
            return _of_processes()
        case errno.ENOMEM:
            return _of_memory()
        case errno.ENOSPC | errno.EDQUOT:
            return f"there is no room left on the disk{_place(error)}; free some space."
        case errno.EFBIG:
            return (
                f"a file may not grow any more{_place(error)}; raise the limit of this process "
                f"(ulimit -f)."
            )
    return _plain(error)


def too_little_for_a_worker() -> str | None:
    """A sentence if the limits of this process are too low for a worker; else None."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < LEAST_FILES:
        return (
            f"this worker may not have more than {files} files open and needs {LEAST_FILES} or "
            f"more; raise that limit (ulimit -n 1024)."
        )
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY and addresses < LEAST_ADDRESS_BYTES:
        return (
            f"this worker may not use more than {addresses // 1024} KiB of addresses, which its "
            f"threads reserve, and needs {LEAST_ADDRESS_BYTES // 1024} KiB or more; raise that "
            f"limit (ulimit -v unlimited) and bound executors with --max-rss."
        )
    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # The kernel does not enforce this limit for root.
    if os.geteuid() != 0 and most != resource.RLIM_INFINITY and most < LEAST_PROCESSES:
        return (
            f"this user may not have more than {most} processes and threads, and a worker needs "
            f"{LEAST_PROCESSES} or more; raise that limit (ulimit -u 1024)."
        )
    return None


def _of_processes() -> str:
    known = [
        f"{what} {_limit(which)} ({how})"
        for which, what, how in (
            (resource.RLIMIT_NPROC, "this user may have", "ulimit -u"),
            (resource.RLIMIT_AS, "this process may use bytes of memory:", "ulimit -v"),
        )
        if resource.getrlimit(which)[0] != resource.RLIM_INFINITY
    ]
    return (
        "no more processes or threads can be started; raise the limit: "
        f"{'; '.join([*known, 'or the limit of the container (pids.max)'])}."
    )


def _of_memory() -> str:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        return (
            f"there is not enough memory: this process may use {limit // 1024} KiB; raise that "
            f"limit (ulimit -v unlimited)."
        )
    return "there is not enough memory; end something else, or give this machine more."


def _limit(which: int) -> str:
    soft, _ = resource.getrlimit(which)
    return "as many as there are" if soft == resource.RLIM_INFINITY else str(soft)


def _place(error: BaseException) -> str:
    name = getattr(error, "filename", None)
    return f" ({name})" if name else ""


def _plain(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror[0].lower()}{error.strerror[1:]}{_place(error)}."
    return f"{type(error).__name__}: {error}."
