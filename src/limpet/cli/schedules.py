"""`limpet schedules`: what is handed in again and again; pause, resume, trigger and remove one."""

import argparse
from typing import Any

from limpet.cli.output import ago, say, say_json, table
from limpet.cli.target import add_target, find_store
from limpet.ops import schedules as ops
from limpet.ops.record import plain
from limpet.ops.schedules import ScheduleAnswer


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "schedules",
        help="list schedules; show, pause, resume, trigger or remove one",
        description="List the schedules: when each ticks, and what became of its ticks so far.",
    )
    add_target(parser)
    parser.set_defaults(run=_list)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, run, text in (
        ("show", _show, "print one with its next five runs"),
        ("pause", _pause, "let it tick no more until it is resumed"),
        ("resume", _resume, "let it tick again, from the next tick to come"),
        ("trigger", _trigger, "hand in one job of it now; its ticks stay as they are"),
        ("remove", _remove, "let it tick no more; the jobs that it handed in stay"),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("id", metavar="ID")
        add_target(action, under=True)
        action.set_defaults(run=run)


def _list(arguments: argparse.Namespace) -> int:
    schedules = ops.list_schedules(find_store(arguments))
    if arguments.json:
        say_json(schedules)
    elif not schedules:
        say("no schedules")
    else:
        head = ("SCHEDULE", "TASK", "QUEUE", "WHEN", "NEXT", "LAST", "FIRED", "PASSED")
        table(
            head,
            [
                (
                    each.schedule, each.task, each.queue, _when(each), _next(each),
                    ago(each.last_at), each.fired, each.passed,
                )
                for each in schedules
            ],
        )  # fmt: skip
    return 0


def _when(schedule: ScheduleAnswer) -> str:
    if schedule.cron is None:
        told = f"every {schedule.every}"
    else:
        told = f"{schedule.cron} ({schedule.tz})"
    return told + (f" + up to {schedule.jitter}" if schedule.jitter else "")


def _next(schedule: ScheduleAnswer) -> str | None:
    return "paused" if schedule.paused else ago(schedule.next_at)


def _show(arguments: argparse.Namespace) -> int:
    schedule = ops.show_schedule(find_store(arguments), arguments.id)
    if arguments.json:
        say_json(schedule)
        return 0
    for name, value in plain(schedule).items():
        if name != "next_runs":
            say(f"{name:<10}  {'-' if value is None else value}")
    for run in schedule.next_runs:
        say(f"{'next run':<10}  {run}")
    if not schedule.next_runs:
        say(f"{'next run':<10}  none while it is paused")
    return 0


def _pause(arguments: argparse.Namespace) -> int:
    ops.pause_schedule(find_store(arguments), arguments.id)
    return _done(arguments, "is paused: it does not tick until it is resumed")


def _resume(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    ops.resume_schedule(store, arguments.id)
    ahead = ago(ops.show_schedule(store, arguments.id).next_at)
    return _done(arguments, f"goes on: its next tick is {ahead}")


def _trigger(arguments: argparse.Namespace) -> int:
    job = ops.trigger_schedule(find_store(arguments), arguments.id)
    if arguments.json:
        say_json({"schedule": arguments.id, "job": job})
    else:
        say(f"schedule {arguments.id} was triggered: job {job}")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    ops.remove_schedule(find_store(arguments), arguments.id)
    if arguments.json:
        say_json({"schedule": arguments.id, "removed": True})
    else:
        say(f"schedule {arguments.id} is removed; its jobs stay")
    return 0


def _done(arguments: argparse.Namespace, text: str) -> int:
    if arguments.json:
        say_json(ops.show_schedule(find_store(arguments), arguments.id))
    else:
        say(f"schedule {arguments.id} {text}")
    return 0
