"""The jobs of the demo, and how each should end by the script."""

from dataclasses import dataclass, field
from typing import Any

from limpet.app.app import App
from limpet.client.handle import JobHandle
from limpet.demo.checks import Fate
from limpet.domain.state import State

QUICK_JOBS = 300


@dataclass(slots=True)
class DemoPart:
    """A job with a name of its own; its expected fate changes when a kill hits the job."""

    name: str
    handle: JobHandle[Any]
    fate: Fate

    @property
    def id(self) -> str:
        return self.handle.id


@dataclass(slots=True)
class Cast:
    """The jobs: each of `parts` has a line in the picture; `quick` are many and end at once."""

    parts: list[DemoPart]
    quick: list[str] = field(default_factory=list)

    def part(self, name: str) -> DemoPart:
        return next(part for part in self.parts if part.name == name)


def hand_in(app: App) -> Cast:
    """Enqueue one job of each kind, in one write; most take long enough to be cut off."""
    names = {
        "download": app.find("download").call(seconds=5.0, size=40),
        "upload": app.find("download").call(seconds=6.0, size=90),
        "render": app.find("render").call(seconds=5.0),
        "convert": app.find("convert").call(seconds=6.5),
        "resize": app.find("resize").call(seconds=4.0, photos=120),
        "pay": app.find("pay").call(),
        "refund": app.find("refund").call(),
    }
    fates = {"pay": Fate(failures=2), "refund": Fate(state=State.FAILED, failures=1)}
    handles = app.enqueue_many(list(names.values()))
    return Cast(
        [
            DemoPart(name, handle, fates.get(name, Fate()))
            for name, handle in zip(names, handles, strict=True)
        ]
    )


def hand_in_quick(app: App, cast: Cast, most: int) -> None:
    """Enqueue at most `most` more quick jobs, until all are handed in."""
    count = min(most, QUICK_JOBS - len(cast.quick))
    if count > 0:
        calls = [app.find("greet").call() for _ in range(count)]
        cast.quick += [handle.id for handle in app.enqueue_many(calls)]
