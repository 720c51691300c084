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
    code: int, limit: int | None, over: int, frozen: float, by_kernel: bool
) -> Cause | None:
    """Why an executor died; None if it left in order.

    `over`: for how many bytes it was ended, with the `limit`. `frozen`: for how many seconds.
    `by_kernel`: the kernel has ended processes for their use of memory meanwhile.
    """
    if frozen:
        return WorkerFrozen(seconds=round(frozen, 3))
    if over:
        return OutOfMemory(used=over, limit=limit)
    if by_kernel and code == -signal.SIGKILL:
        return OutOfMemory()
    if not code:
        return None
    return WorkerKilled(-code, "executor") if code < 0 else ExecutorExited(code)


def of_zygote(code: int | None, deaf: float) -> Cause:
    """Why a zygote died; None: it has not answered for `deaf` seconds."""
    if code is None:
        return WorkerFrozen(deaf)
    return WorkerKilled(-code if code < 0 else None, process="zygote")


def of_lease(silent: float, stood_still: float) -> Cause:
    """Why a lease ran out: the store has not answered for so many seconds, or the worker itself
    stood still for most of that time.
    """
    if stood_still * 2 < silent:
        return StoreOutage(round(silent, 1))
    return BegunAnew(f"it stood still for {stood_still:.1f} s, and its lease ran out")


def of_zygote_in_words(code: int | None) -> str:
    """The same for the log."""
    if code is None:
        return "it does not answer"
    return f"signal {-code}" if code < 0 else f"code {code}"


def of_supervisor(code: int, frozen: float, limit: float, stopping: bool) -> Cause:
    """Why a supervisor died that had shown no life for `frozen` seconds, of `limit` allowed.

    `stopping`: it was asked to leave, and took too long.
    """
    if stopping:
        return Drained()
    if code == -signal.SIGKILL and frozen >= limit * 0.9:
        return WorkerFrozen(seconds=round(frozen, 3))
    process = "supervisor"
    return WorkerKilled(-code, process) if code < 0 else ExecutorExited(code, process)
