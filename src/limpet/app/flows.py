"""A flow: a job that waits for its children, each a job or another flow."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, TypeAlias, get_args

from limpet.app.task import Call, Home, Task
from limpet.client.handle import JobHandle, remember_children
from limpet.domain.checks import choice, set_fields
from limpet.domain.errors import InvalidOption
from limpet.domain.job import NewJob
from limpet.domain.rules import NO_RULES, ChildFailure
from limpet.storage.contract.answers import Receipt

Failed = Literal["fail", "skip", "keep"]
Part: TypeAlias = "Call | Flow | Child"


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Flow:
    """A job and the children that it waits for.

    `failed`: what happens to the job when a child fails or is cancelled. "fail": the job fails too,
    at once, and its other children are cancelled. "skip": the child is left out of `ctx.children`.
    "keep": the job finds the child's error in `ctx.children`.
    """

    call: Call
    children: "tuple[Child, ...]"

    def __init__(self, call: Call, children: Iterable[Part], failed: Failed = "fail") -> None:
        if not isinstance(call, Call):
            raise InvalidOption(
                f"a flow is made of calls, not of {_described(call)}; use task.call(…)."
            )
        set_fields(self, call=call, children=as_children(children, failed))

    def __repr__(self) -> str:
        return f"<Flow {self.call.task.name} with {len(self.children)} children>"


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """A child whose failure does something else to the parent than that of its siblings."""

    part: Call | Flow
    failed: Failed = "fail"

    def __post_init__(self) -> None:
        if not isinstance(self.part, Call | Flow):
            raise InvalidOption(
                f"a child is a call or a Flow, not {_described(self.part)}; use task.call(…)."
            )
        choice(self.failed, "failed", get_args(Failed))


def as_children(parts: Iterable[Part], failed: Failed = "fail") -> tuple[Child, ...]:
    """The parts as children; `failed` for those that are not a `Child` already."""
    if isinstance(parts, Call | Flow | Child):
        raise InvalidOption("children is a single child; write a list: children=[…].")
    return tuple(part if isinstance(part, Child) else Child(part, failed) for part in parts)


@dataclass(frozen=True, slots=True)
class _FlowJob:
    """One job of a flow, with the places of its parent, of its root, and of its children."""

    child: Child
    above: int | None
    top: int
    below: range

    @property
    def call(self) -> Call:
        part = self.child.part
        return part.call if isinstance(part, Flow) else part


class FlowLayout:
    """The rows of flows: parents before their children, siblings in their given order."""

    def __init__(
        self,
        home: Home,
        children: Sequence[Child],
        *,
        parent: str | None = None,
        root: str | None = None,
    ) -> None:
        """`parent`: an existing job that will wait for `children`; `root`: the root of `parent`."""
        self._places = _level_by_level(children)
        self._tops = len(children)
        self._check(home)
        rows: list[NewJob] = []
        for task, alike in groupby((place.call for place in self._places), itemgetter(0)):
            rows += task.new_jobs([call.packed for call in alike])
        self.jobs: list[NewJob] = []
        """The new jobs, as the store takes them."""
        for row, place in zip(rows, self._places, strict=True):
            above = parent if place.above is None else rows[place.above].id
            in_flow = above is not None or place.below
            failure = ChildFailure.FAIL if above is None else ChildFailure(place.child.failed)
            rules = (row.rules or NO_RULES)._replace(
                children=len(place.below), child_failure=failure
            )
            self.jobs.append(
                row._replace(
                    parent=above,
                    root=(root or rows[place.top].id) if in_flow else None,
                    rules=None if rules == NO_RULES else rules,
                )
            )

    def _check(self, home: Home) -> None:
        for task in {place.call.task for place in self._places}:
            fits(home, task, "a flow")
            if task.options.unique is not None:
                raise InvalidOption(
                    f"{task.name}: a job of a flow or a group cannot be unique, because the other "
                    f"jobs would wait for one that was not taken in; make the flow in a unique job."
                )
        for place in self._places:
            task = place.call.task
            if place.below and task.options.delay is not None:
                raise InvalidOption(
                    f"{task.name}: a job with children begins when they are finished; give the "
                    f"delay to the children."
                )

    def handles(self, receipts: Sequence[Receipt]) -> list[JobHandle[Any]]:
        """The handles of the top jobs, each with its children."""
        made: list[JobHandle[Any]] = [
            place.call.task.handle(receipt)
            for place, receipt in zip(self._places, receipts, strict=True)
        ]
        for handle, place in zip(made, self._places, strict=True):
            if place.below:
                remember_children(handle, made[place.below.start : place.below.stop])
        return made[: self._tops]


def _level_by_level(children: Sequence[Child]) -> list[_FlowJob]:
    # A loop, not recursion: a chain of 1,000 jobs is 1,000 levels deep.
    line: deque[tuple[Child, int | None, int]] = deque(
        (child, None, top) for top, child in enumerate(children)
    )
    places: list[_FlowJob] = []
    seen: set[int] = set()
    while line:
        child, above, top = line.popleft()
        here = len(places)
        lower: tuple[Child, ...] = ()
        if isinstance(child.part, Flow):
            if id(child.part) in seen:
                raise InvalidOption(
                    f"{child.part!r} is in the flow twice, and a job has one parent; make a Flow "
                    f"for each place."
                )
            seen.add(id(child.part))
            lower = child.part.children
        first = here + 1 + len(line)
        places.append(_FlowJob(child, above, top, range(first, first + len(lower))))
        line.extend((below, here, top) for below in lower)
    return places


def fits(home: Home, task: Task[Any, Any], where: str) -> None:
    """Raise `InvalidOption` for a task whose calls cannot be handed in together with others."""
    if task.home is not home:
        raise InvalidOption(f"{where}: the call of {task.name!r} belongs to another app.")
    if task.options.within is not None:
        raise InvalidOption(f"{where} takes no calls that were made with within=.")
    task.moments()
    _ = task.shape  # raises where the options contradict each other


def _described(value: object) -> str:
    return f"{type(value).__name__} {value!r}"
