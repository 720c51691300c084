"""`limpet queues`: how many jobs are where, and why; pause, drain, limit and hold a queue."""

import argparse
import time
from collections.abc import Callable
from typing import Any

from limpet.cli.output import ago, note, say, say_json, table
from limpet.cli.rate import add_rate, rate_said
from limpet.cli.remark import limits_text, queue_remark
from limpet.cli.target import add_target, find_store
from limpet.domain.duration import duration, spoken
from limpet.domain.queue import NO_QUEUE_RULES, queue_rules
from limpet.domain.state import State
from limpet.ops import queues as ops
from limpet.ops.inspect import limits_of, list_queues
from limpet.ops.record import iso
from limpet.storage.contract.store import Store

_TELL_SECONDS = 1.0
_RULES = ("concurrency", "rate", "weight")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "queues",
        help="list queues with the number of jobs by state; pause, drain, limit or hold one",
        description="List the queues with the number of jobs by state, their limits, and why "
        "nothing, or no more, of them runs. The actions are for all workers, at once.",
    )
    add_target(parser)
    parser.set_defaults(run=_list)
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    for name, run, text in (
        ("pause", _pause, "start nothing of it; it takes in jobs as before"),
        ("resume", _resume, "start its jobs again and take in new ones, after pause or drain"),
        ("drain", _drain, "take in no new jobs; what it has goes on"),
        ("limit", _limit, "say how much of it may run in the whole cluster"),
        ("unlimit", _unlimit, "take back what limit has set; what the app declares holds again"),
        ("hold", _hold, "start nothing of it for a time"),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("name", metavar="NAME")
        _ADD.get(name, _nothing)(action)
        add_target(action, under=True)
        action.set_defaults(run=run)


def _nothing(action: argparse.ArgumentParser) -> None: ...


def _add_drain(action: argparse.ArgumentParser) -> None:
    action.add_argument("--wait", action="store_true", help="wait until it is empty")
    action.add_argument("--at-most", metavar="TIME", help="wait no longer, as in 10m; then exit 1")


def _add_limit(action: argparse.ArgumentParser) -> None:
    action.add_argument("--concurrency", type=int, metavar="N", help="so many of its jobs at once")
    add_rate(action)
    action.add_argument(
        "--weight", type=int, metavar="N", help="its share where several queues have jobs (1)"
    )


def _add_unlimit(action: argparse.ArgumentParser) -> None:
    for name in _RULES:
        action.add_argument(f"--{name}", action="store_true", help=f"only the {name}")


def _add_hold(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--for", required=True, metavar="TIME", dest="time", help="as in 30s; 0s ends a hold"
    )


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "drain": _add_drain,
    "limit": _add_limit,
    "unlimit": _add_unlimit,
    "hold": _add_hold,
}


def _list(arguments: argparse.Namespace) -> int:
    queues = list_queues(find_store(arguments))
    if arguments.json:
        say_json(queues)
    elif not queues:
        say("no queues")
    else:
        head = ["QUEUE", *(state.upper() for state in State), "HEAD READY"]
        rows: list[list[object]] = [
            [queue.queue, *(queue.in_state(state) for state in State), ago(queue.head_ready_at)]
            for queue in queues
        ]
        limits = [limits_text(queue.rules) for queue in queues]
        remarks = [queue_remark(queue) or None for queue in queues]
        for name, column in (("LIMITS", limits), ("REMARK", remarks)):
            if any(column):
                head.append(name)
                for row, cell in zip(rows, column, strict=True):
                    row.append(cell)
        table(head, rows)
    return 0


def _pause(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    ops.pause_queue(store, arguments.name)
    return _done(arguments, store, "is paused: nothing of it starts until it is resumed")


def _resume(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    ops.resume_queue(store, arguments.name)
    view = ops.find_queue(store, arguments.name)
    held = ago(iso(view.held_until)) if view is not None and view.held_until else None
    told = "goes on and takes in jobs"
    if held is not None and held.startswith("in "):
        told += f"; it is still held and starts jobs {held} (hold --for 0s ends that)"
    return _done(arguments, store, told)


def _drain(arguments: argparse.Namespace) -> int:
    at_most = None
    if arguments.at_most is not None:
        at_most = duration(arguments.at_most, what="--at-most")
    store = find_store(arguments)
    ops.drain_queue(store, arguments.name)
    if not arguments.wait and at_most is None:
        left = ops.left_in(store, arguments.name)
        return _done(arguments, store, f"takes in no new jobs; {_left(left)}")
    left = ops.wait_until_empty(store, arguments.name, at_most, _Teller(quiet=arguments.json))
    if not left.jobs:
        return _done(arguments, store, "is drained: it is empty, and takes in no new jobs")
    over = spoken(at_most) if at_most is not None else ""
    _done(arguments, store, f"is not empty after {over}: {_left(left)}")
    return 1


def _left(left: ops.Left) -> str:
    if not left.jobs:
        return "it is empty"
    told = f"{left.waiting:,} wait and {left.running:,} run"
    return f"{told}, but it is paused: resume it to let them go on" if left.paused else told


def _limit(arguments: argparse.Namespace) -> int:
    rate = rate_said(arguments)
    rules = queue_rules(arguments.concurrency, rate, arguments.weight, what=arguments.name)
    store = find_store(arguments)
    adjusted = ops.limit_queue(store, arguments.name, rules)
    return _done(arguments, store, f"is limited to {limits_text(limits_of(adjusted))}")


def _unlimit(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    only = frozenset(name for name in _RULES if getattr(arguments, name))
    adjusted = ops.unlimit_queue(store, arguments.name, only)
    view = ops.find_queue(store, arguments.name)
    kept = limits_text(limits_of(adjusted if view is None else view.rules))
    whose = "" if adjusted != NO_QUEUE_RULES else ", as the app declares"
    return _done(arguments, store, f"is limited to {kept}{whose}" if kept else "has no limits")


def _hold(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    until = ops.hold_queue(store, arguments.name, arguments.time)
    told = f"is held: its jobs start again {ago(iso(until))}" if until else "is not held any more"
    return _done(arguments, store, told)


def _done(arguments: argparse.Namespace, store: Store, text: str) -> int:
    name = arguments.name
    known = [each for each in list_queues(store) if each.queue == name]
    if arguments.json:
        say_json(known[0] if known else {"queue": name})
        return 0
    say(f"queue {name} {text}" + ("" if known else " (it has had no jobs yet)"))
    return 0


class _Teller:
    """Says once a second what is left, beside what is printed at the end."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next = time.monotonic()

    def __call__(self, left: ops.Left) -> None:
        if not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_SECONDS
            note(_left(left))
