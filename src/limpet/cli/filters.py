"""The options by which a command chooses jobs."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from limpet.domain.clock import SystemClock
from limpet.domain.duration import duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import checked_id
from limpet.domain.queue import checked_name
from limpet.domain.state import State
from limpet.ops.selection import Selection

_STATES = ", ".join(state.value for state in State)
_TIMES = ("created_since", "created_until", "finished_since", "finished_until")
_SECTION = "Which jobs (a time is 2h, meaning 2 hours ago, or 2026-01-31T08:00, in UTC)"


def _option(name: str, metavar: str, text: str, **more: Any) -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=_SECTION, **more)


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise typer.BadParameter(f"invalid choice: {text!r}; choose from {_STATES}") from None


def _states(incomplete: str) -> list[str]:
    return [state.value for state in State if state.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Filters:
    """Every filter but the state."""

    queue: Annotated[str | None, _option("--queue", "NAME", "of that queue")] = None
    task: Annotated[str | None, _option("--task", "NAME", "of that task")] = None
    error: Annotated[
        str | None,
        _option("--error", "TEXT", "whose error is of that kind, or has that in its text"),
    ] = None
    created_since: Annotated[
        str | None, _option("--created-since", "TIME", "enqueued then or later")
    ] = None
    created_until: Annotated[str | None, _option("--created-until", "TIME", "enqueued before")] = (
        None
    )
    finished_since: Annotated[
        str | None, _option("--finished-since", "TIME", "finished then or later")
    ] = None
    finished_until: Annotated[
        str | None, _option("--finished-until", "TIME", "finished before")
    ] = None
    key: Annotated[str | None, _option("--key", "KEY", "with that key")] = None
    parent: Annotated[str | None, _option("--parent", "ID", "the children of that job")] = None
    root: Annotated[str | None, _option("--root", "ID", "all below that job")] = None

    def selection(self, now: int | None = None) -> Selection:
        """The jobs that the command line selects; raises `InvalidOption` for a wrong value."""
        moment = SystemClock().wall() if now is None else now
        times = {
            name: None if (text := getattr(self, name)) is None else _moment(text, name, moment)
            for name in _TIMES
        }
        for first, last in (_TIMES[:2], _TIMES[2:]):
            since, until = times[first], times[last]
            if since is not None and until is not None and since >= until:
                raise InvalidOption(
                    f"{_written(first)} is not before {_written(last)}, so no job can match; "
                    f"exchange the two."
                )
        return Selection(
            queue=self.queue and checked_name(self.queue),
            task=self.task and checked_name(self.task, "task"),
            error=self.error or None,
            key=self.key,
            parent=self.parent and checked_id(self.parent),
            root=self.root and checked_id(self.root),
            created_since=times["created_since"],
            created_until=times["created_until"],
            finished_since=times["finished_since"],
            finished_until=times["finished_until"],
        )


@dataclass(frozen=True, slots=True)
class StateFilters(Filters):
    """Every filter, the state too."""

    state: Annotated[
        State | None,
        _option("--state", "STATE", _STATES, parser=_state, autocompletion=_states),
    ] = None

    def selection(self, now: int | None = None) -> Selection:
        """The jobs that the command line selects; raises `InvalidOption` for a wrong value."""
        return replace(Filters.selection(self, now), state=self.state)


def _written(name: str) -> str:
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
            f"{_written(name)} is {text!r}; write how long ago, as 2h or 10m, or a date and time, "
            f"as 2026-01-31T08:00."
        ) from None
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1e6)
