"""The remark beside a queue in a table: why its jobs do not run, in few words."""

from limpet.cli.output import ago
from limpet.ops.inspect import QueueAnswer, QueueLimits
from limpet.ops.overview import QueueTotals
from limpet.ops.reason import BreakerReason, ConcurrencyReason, Kind, RateReason, Reason


def queue_remark(queue: QueueAnswer | QueueTotals) -> str:
    """Why no job, or no further job, of the queue runs."""
    parts = ["paused"] if queue.paused else []
    parts += ["draining"] if queue.draining else []
    if queue.why is not None and queue.why.kind is not Kind.PAUSED:
        parts.append(_short(queue.why))
    parts += [_blocked(reason, count) for reason, count in sorted(queue.blocked_by.items())]
    return "; ".join(parts)


def _blocked(reason: str, count: int) -> str:
    """The reason of several jobs: `3 wait for their children`, from `waits for its children`."""
    if count > 1:
        reason = reason.replace("waits for its ", "wait for their ").replace("needs ", "need ", 1)
    return f"{count} {reason}"


def _short(why: Reason) -> str:
    then = ago(why.until) or ""
    then = then if then.startswith("in ") else "now"
    if why.kind is Kind.HELD:
        return f"held, goes on {then}"
    if isinstance(why, ConcurrencyReason):
        return f"{why.running} of {why.concurrency} running"
    if isinstance(why, RateReason):
        return f"{why.rate} reached, next {then}"
    if isinstance(why, BreakerReason):
        return f"breaker {why.breaker} open, tries one {then}"
    if why.kind is Kind.NO_WORKER:
        return "no worker is live"
    return why.text


def limits_text(limits: QueueLimits) -> str | None:
    """The limits in few words; None if there are none."""
    parts = [f"{limits.concurrency} at once"] if limits.concurrency is not None else []
    parts += [limits.rate] if limits.rate is not None else []
    parts += [f"weight {limits.weight}"] if limits.weight is not None else []
    return ", ".join(parts) or None
