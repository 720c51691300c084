"""`limpet queues`: count jobs by queue and state; pause, drain, limit and hold a queue."""

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from limpet.cli.command import command, group, without_action
from limpet.cli.output import ago, print_json, print_line, show_table
from limpet.cli.progress import ProgressLine
from limpet.cli.rate import RateOptions
from limpet.cli.remark import limits_text, queue_remark
from limpet.cli.style import OF_STATES, Column, Style, text
from limpet.cli.target import Common, find_store
from limpet.domain.duration import duration, spoken
from limpet.domain.queue import NO_QUEUE_RULES, queue_rules
from limpet.domain.state import State
from limpet.ops import queues as ops
from limpet.ops.inspect import limits_of, list_queues
from limpet.ops.record import iso
from limpet.storage.contract.store import Store

# Columns to keep on a terminal of 80: what waits, what runs and what went wrong, before the rest.
_KEPT = {
    State.READY: 9,
    State.RUNNING: 8,
    State.FAILED: 7,
    State.SCHEDULED: 6,
    State.BLOCKED: 5,
    State.QUARANTINED: 4,
}
_COLUMNS = (
    Column("QUEUE", 10, least=8),
    *(Column(state.upper(), _KEPT.get(state, 2), right=True) for state in State),
    Column("HEAD READY", 1),
    Column("LIMITS", 3, least=10, optional=True),
    Column("REMARK", 6, least=20, optional=True),
)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@dataclass(frozen=True, slots=True)
class Only:
    """Which of the limits to remove; all of them if none is named."""

    concurrency: Annotated[bool, typer.Option("--concurrency", help="only the concurrency")] = False
    rate: Annotated[bool, typer.Option("--rate", help="only the rate")] = False
    weight: Annotated[bool, typer.Option("--weight", help="only the weight")] = False


app = group(runs_alone=True)


@without_action(
    app,
    "List the queues with the number of jobs by state, their limits, and why no job, or no further "
    "job, of a queue runs. The actions hold for all workers, at once.",
)
def show(common: Common) -> int:
    """List the queues."""
    queues = list_queues(find_store(common))
    if common.json:
        print_json(queues)
    elif not queues:
        print_line("no queues")
    else:
        rows = [
            (
                text(queue.queue),
                *(_count(queue.in_state(state), state) for state in State),
                text(ago(queue.head_ready_at) or "-"),
                text(limits_text(queue.rules) or ""),
                text(queue_remark(queue), Style.WARN),
            )
            for queue in queues
        ]
        show_table(_COLUMNS, rows)
    return 0


def _count(number: int, state: State) -> Text:
    return text(number, OF_STATES.get(state, Style.PLAIN) if number else Style.FAINT)


@command(app, "pause", "start none of its jobs; it still takes in new ones")
def pause_queue(name: Name, common: Common) -> int:
    """Pause a queue."""
    store = find_store(common)
    ops.pause_queue(store, name)
    return _done(common, name, store, "is paused: none of its jobs starts until it is resumed")


@command(app, "resume", "start its jobs again and take in new ones, after pause or drain")
def resume(name: Name, common: Common) -> int:
    """Resume a queue."""
    store = find_store(common)
    ops.resume_queue(store, name)
    view = ops.find_queue(store, name)
    held = ago(iso(view.held_until)) if view is not None and view.held_until else None
    text = "goes on and takes in jobs"
    if held is not None and held.startswith("in "):
        text += f"; it is still held and starts jobs {held} (hold --for 0s ends that)"
    return _done(common, name, store, text)


@command(app, "drain", "take in no new jobs; those that it has go on")
def drain(
    name: Name,
    common: Common,
    wait: Annotated[bool, typer.Option("--wait", help="wait until it is empty")] = False,
    at_most: Annotated[
        str | None,
        typer.Option("--at-most", metavar="TIME", help="wait no longer, as in 10m; then exit 1"),
    ] = None,
) -> int:
    """Drain a queue."""
    longest = None if at_most is None else duration(at_most, what="--at-most")
    store = find_store(common)
    ops.drain_queue(store, name)
    if not wait and longest is None:
        left = ops.left_in(store, name)
        return _done(common, name, store, f"takes in no new jobs; {_left(left)}")
    with ProgressLine(quiet=common.json, at_once=True) as progress:
        left = ops.wait_until_empty(store, name, longest, lambda left: progress.update(_left(left)))
    if not left.jobs:
        return _done(common, name, store, "is drained: it is empty, and takes in no new jobs")
    over = spoken(longest) if longest is not None else ""
    _done(common, name, store, f"is not empty after {over}: {_left(left)}")
    return 1


def _left(left: ops.Left) -> str:
    if not left.jobs:
        return "it is empty"
    text = f"{left.waiting:,} wait and {left.running:,} run"
    return f"{text}, but it is paused: resume it to let them go on" if left.paused else text


@command(app, "limit", "limit how much of it may run in the whole cluster")
def limit(
    name: Name,
    rates: RateOptions,
    common: Common,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="this many of its jobs at once")
    ] = None,
    weight: Annotated[
        int | None,
        typer.Option(
            "--weight", metavar="N", help="its share where several queues have jobs (else 1)"
        ),
    ] = None,
) -> int:
    """Limit a queue."""
    rules = queue_rules(concurrency, rates.checked(), weight, what=name)
    store = find_store(common)
    adjusted = ops.limit_queue(store, name, rules)
    return _done(common, name, store, f"is limited to {limits_text(limits_of(adjusted))}")


@command(app, "unlimit", "remove what limit has set; what the app declares holds again")
def unlimit(name: Name, only: Only, common: Common) -> int:
    """Remove the limits of a queue."""
    store = find_store(common)
    named = frozenset(rule for rule in ("concurrency", "rate", "weight") if getattr(only, rule))
    adjusted = ops.unlimit_queue(store, name, named)
    view = ops.find_queue(store, name)
    kept = limits_text(limits_of(adjusted if view is None else view.rules))
    whose = "" if adjusted != NO_QUEUE_RULES else ", as the app declares"
    text = f"is limited to {kept}{whose}" if kept else "has no limits"
    return _done(common, name, store, text)


@command(app, "hold", "start none of its jobs for a time")
def hold(
    name: Name,
    time_to_hold: Annotated[
        str, typer.Option("--for", metavar="TIME", help="as in 30s; 0s ends a hold")
    ],
    common: Common,
) -> int:
    """Hold a queue."""
    store = find_store(common)
    until = ops.hold_queue(store, name, time_to_hold)
    text = f"is held: its jobs start again {ago(iso(until))}" if until else "is not held any more"
    return _done(common, name, store, text)


def _done(common: Common, name: str, store: Store, text: str) -> int:
    known = [queue for queue in list_queues(store) if queue.queue == name]
    if common.json:
        print_json(known[0] if known else {"queue": name})
        return 0
    print_line(f"queue {name} {text}" + ("" if known else " (it has had no jobs yet)"))
    return 0
