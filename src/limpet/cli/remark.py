"""What stands beside a queue in a table: what a person should know of it."""

from collections.abc import Mapping
from typing import Any

from limpet.cli.output import ago
from limpet.ops.why import Kind


def queue_remark(queue: Mapping[str, Any]) -> str:
    """Why nothing, or no more, of it runs; in few words."""
    told = ["paused"] if queue["paused"] else []
    told += ["draining"] if queue.get("draining") else []
    why = queue.get("why")
    if why is not None and why["kind"] != Kind.PAUSED:
        told.append(_short(why))
    told += [_blocked(reason, count) for reason, count in sorted(queue["blocked_by"].items())]
    return "; ".join(told)


def _blocked(reason: str, count: int) -> str:
    """`3 wait for their children`, where each of them says `waits for its children`."""
    if count > 1:
        reason = reason.replace("waits for its ", "wait for their ").replace("needs ", "need ", 1)
    return f"{count} {reason}"


def _short(why: Mapping[str, Any]) -> str:
    then = ago(why["until"]) or ""
    then = then if then.startswith("in ") else "now"
    if why["kind"] == Kind.HELD:
        return f"held, goes on {then}"
    if why["kind"] == Kind.CONCURRENCY:
        return f"{why['running']} of {why['concurrency']} running"
    if why["kind"] == Kind.RATE:
        return f"{why['rate']} reached, next {then}"
    if why["kind"] == Kind.BREAKER:
        return f"breaker {why['breaker']} open, tries one {then}"
    if why["kind"] == Kind.NO_WORKER:
        return "no worker is live"
    return str(why["text"])


def limits_text(rules: Mapping[str, Any]) -> str | None:
    """What is limited, in few words; None where nothing is."""
    parts = [f"{rules['concurrency']} at once"] if "concurrency" in rules else []
    parts += [rules["rate"]] if "rate" in rules else []
    parts += [f"weight {rules['weight']}"] if "weight" in rules else []
    return ", ".join(parts) or None
