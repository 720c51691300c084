"""The options by which a command chooses jobs."""

import argparse
from datetime import UTC, datetime
from typing import Any

from limpet.domain.clock import SystemClock
from limpet.domain.duration import duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import checked_id
from limpet.domain.queue import checked_name
from limpet.domain.state import State
from limpet.ops.selection import Selection

_TIMES = ("created_since", "created_until", "finished_since", "finished_until")


def add_filters(
    parser: argparse.ArgumentParser, *, state: bool = True, under: bool = False
) -> None:
    """Add them; `under`: a command of a command that has them too, whose words stay."""
    unless_said: Any = argparse.SUPPRESS if under else None
    group = parser.add_argument_group(
        "which jobs",
        "Times are 2h (so long ago) or 2026-01-31T08:00 (UTC, unless it names a zone).",
    )
    if state:
        group.add_argument(
            "--state", choices=[each.value for each in State], metavar="STATE", default=unless_said,
            help=", ".join(each.value for each in State),
        )  # fmt: skip
    for name, metavar, text in (
        ("--queue", "NAME", "of that queue"),
        ("--task", "NAME", "of that task"),
        ("--error", "TEXT", "whose error is of that kind, or has that in its text"),
        ("--created-since", "TIME", "enqueued then or later"),
        ("--created-until", "TIME", "enqueued before"),
        ("--finished-since", "TIME", "finished then or later"),
        ("--finished-until", "TIME", "finished before"),
        ("--key", "KEY", "with that key"),
        ("--parent", "ID", "the children of that job"),
        ("--root", "ID", "all below that job"),
    ):
        group.add_argument(name, metavar=metavar, default=unless_said, help=text)


def selection_of(arguments: argparse.Namespace, now: int | None = None) -> Selection:
    """The jobs that the command line names, each word checked."""
    moment = SystemClock().wall() if now is None else now
    times = {
        name: None if (text := getattr(arguments, name)) is None else _moment(text, name, moment)
        for name in _TIMES
    }
    for first, last in (_TIMES[:2], _TIMES[2:]):
        since, until = times[first], times[last]
        if since is not None and until is not None and since >= until:
            raise InvalidOption(
                f"{_option(first)} does not come before {_option(last)}; no job can be in between."
            )
    state = getattr(arguments, "state", None)
    return Selection(
        state=State(state) if state else None,
        queue=arguments.queue and checked_name(arguments.queue),
        task=arguments.task and checked_name(arguments.task, "task"),
        error=arguments.error or None,
        key=arguments.key,
        parent=arguments.parent and checked_id(arguments.parent),
        root=arguments.root and checked_id(arguments.root),
        **times,
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _moment(text: str, name: str, now: int) -> int:
    try:
        return max(0, now - microseconds(duration(text)))
    except InvalidOption:
        pass
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{_option(name)} is {text!r}; write how long ago, as 2h or 10m, or a date and time, "
            f"as 2026-01-31T08:00."
        ) from None
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1e6)
