"""`limpet schedules`: list the schedules; show, pause, resume, trigger and remove one."""

from typing import Annotated

import typer

from limpet.cli.command import command, group, without_action
from limpet.cli.output import ago, print_json, print_line, show_table
from limpet.cli.style import Column, Style, text
from limpet.cli.target import Common, find_store
from limpet.ops import schedules as ops
from limpet.ops.record import plain
from limpet.ops.schedules import ScheduleAnswer

_COLUMNS = (
    Column("SCHEDULE", 10, least=8),
    Column("TASK", 8, least=8),
    Column("QUEUE", 3, least=5),
    Column("WHEN", 9, least=10),
    Column("NEXT", 7),
    Column("LAST", 6),
    Column("FIRED", 5, right=True),
    Column("PASSED", 4, right=True),
)

Id = Annotated[str, typer.Argument(metavar="ID")]

app = group(runs_alone=True)


@without_action(
    app, "List the schedules: when each ticks, and how many ticks were fired or passed over."
)
def list_all(common: Common) -> int:
    """List the schedules."""
    schedules = ops.list_schedules(find_store(common))
    if common.json:
        print_json(schedules)
    elif not schedules:
        print_line("no schedules")
    else:
        rows = [
            (
                text(schedule.schedule),
                text(schedule.task),
                text(schedule.queue),
                text(_when(schedule)),
                text(_next(schedule) or "-", Style.WARN if schedule.paused else Style.PLAIN),
                text(ago(schedule.last_at) or "-"),
                text(schedule.fired),
                text(schedule.passed),
            )
            for schedule in schedules
        ]
        show_table(_COLUMNS, rows)
    return 0


def _when(schedule: ScheduleAnswer) -> str:
    when = f"every {schedule.every}"
    if schedule.cron is not None:
        when = f"{schedule.cron} ({schedule.tz})"
    return when + (f" + up to {schedule.jitter}" if schedule.jitter else "")


def _next(schedule: ScheduleAnswer) -> str | None:
    return "paused" if schedule.paused else ago(schedule.next_at)


@command(app, "show", "print a schedule with its next five runs")
def show(schedule_id: Id, common: Common) -> int:
    """Show one."""
    schedule = ops.show_schedule(find_store(common), schedule_id)
    if common.json:
        print_json(schedule)
        return 0
    for name, value in plain(schedule).items():
        if name != "next_runs":
            print_line(f"{name:<10}  {'-' if value is None else value}")
    for run in schedule.next_runs:
        print_line(f"{'next run':<10}  {run}")
    if not schedule.next_runs:
        print_line(f"{'next run':<10}  none while it is paused")
    return 0


@command(app, "pause", "stop its ticks until it is resumed")
def pause_schedule(schedule_id: Id, common: Common) -> int:
    """Pause one."""
    ops.pause_schedule(find_store(common), schedule_id)
    return _done(common, schedule_id, "is paused: it does not tick until it is resumed")


@command(app, "resume", "let it tick again, from the next tick to come")
def resume(schedule_id: Id, common: Common) -> int:
    """Resume one."""
    store = find_store(common)
    ops.resume_schedule(store, schedule_id)
    ahead = ago(ops.show_schedule(store, schedule_id).next_at)
    return _done(common, schedule_id, f"goes on: its next tick is {ahead}")


@command(app, "trigger", "hand in one of its jobs now; its ticks stay as they are")
def trigger(schedule_id: Id, common: Common) -> int:
    """Trigger one."""
    job = ops.trigger_schedule(find_store(common), schedule_id)
    if common.json:
        print_json({"schedule": schedule_id, "job": job})
    else:
        print_line(f"schedule {schedule_id} was triggered: job {job}")
    return 0


@command(app, "remove", "remove a schedule; the jobs that it handed in stay")
def remove(schedule_id: Id, common: Common) -> int:
    """Remove one."""
    ops.remove_schedule(find_store(common), schedule_id)
    if common.json:
        print_json({"schedule": schedule_id, "removed": True})
    else:
        print_line(f"schedule {schedule_id} is removed; its jobs stay")
    return 0


def _done(common: Common, schedule_id: str, text: str) -> int:
    if common.json:
        print_json(ops.show_schedule(find_store(common), schedule_id))
    else:
        print_line(f"schedule {schedule_id} {text}")
    return 0
