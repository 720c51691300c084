"""How a process of the worker died, as a cause that the store can keep.

Exit codes are as `subprocess` has them: negative for a signal.
"""

import signal

from limpet.domain.cause import (
    BegunAnew,
    Cause,
    Drained,
    ExecutorExited,
    OutOfMemory,
    StoreOutage,
    WorkerFrozen,
    WorkerKilled,
)


def of_executor(
    code: int, limit_bytes: int | None, used_bytes: int, frozen_seconds: float, by_kernel: bool
) -> Cause | None:
    """Why an executor died; None if it left in order.

    - `used_bytes`: what it used when it was killed for exceeding `limit_bytes`, else 0.
    - `frozen_seconds`: how long it had stood still when it was killed for that, else 0.
    - `by_kernel`: the kernel has meanwhile killed processes for their use of memory.
    """
    if frozen_seconds:
        return WorkerFrozen(seconds=round(frozen_seconds, 3))
    if used_bytes:
        return OutOfMemory(used=used_bytes, limit=limit_bytes)
    if by_kernel and code == -signal.SIGKILL:
        return OutOfMemory()
    if not code:
        return None
    return WorkerKilled(-code, "executor") if code < 0 else ExecutorExited(code)


def of_zygote(code: int | None, silent_seconds: float) -> Cause:
    """Why a zygote died. `code`: None if it lives and did not answer for `silent_seconds`."""
    if code is None:
        return WorkerFrozen(silent_seconds)
    return WorkerKilled(-code if code < 0 else None, process="zygote")


def of_lease(silent_seconds: float, stood_still_seconds: float) -> Cause:
    """Why a lease ran out.

    The store has not answered for `silent_seconds`, unless the worker itself stood still for most
    of that time.
    """
    if stood_still_seconds * 2 < silent_seconds:
        return StoreOutage(round(silent_seconds, 1))
    return BegunAnew(f"it stood still for {stood_still_seconds:.1f} s, and its lease ran out")


def of_zygote_in_words(code: int | None) -> str:
    """Why a zygote died, as a part of a sentence in the log."""
    if code is None:
        return "it does not answer"
    return f"signal {-code}" if code < 0 else f"code {code}"


def of_supervisor(code: int, frozen_seconds: float, limit_seconds: float, stopping: bool) -> Cause:
    """Why a supervisor died.

    It had stood still for `frozen_seconds`, where `limit_seconds` are allowed. `stopping`: it was
    requested to stop, and took too long.
    """
    if stopping:
        return Drained()
    if code == -signal.SIGKILL and frozen_seconds >= limit_seconds * 0.9:
        return WorkerFrozen(seconds=round(frozen_seconds, 3))
    process = "supervisor"
    return WorkerKilled(-code, process) if code < 0 else ExecutorExited(code, process)
