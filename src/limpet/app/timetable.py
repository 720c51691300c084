"""How an app declares schedules: `@app.every`, `@app.cron`, `@app.scanner`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Unpack

from limpet.app.decorators import DeclareScanner, DeclareSchedule
from limpet.app.registry import AppRegistry
from limpet.app.schedules import (
    CatchUpWord,
    Schedules,
    plan_of,
)
from limpet.app.typed_options import ScannerOptions
from limpet.client.client import Client
from limpet.domain.duration import Duration


class Timetable(ABC):
    """The part of an app that declares schedules."""

    payload_limit: int
    registry: AppRegistry

    @property
    @abstractmethod
    def client(self) -> Client:
        """The client, which hands in jobs and follows them."""

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: put, pause, trigger and remove them at run time."""
        return Schedules(self.client, self.registry.declarations.found)

    def every(
        self,
        period: Duration,
        /,
        *,
        id: str | None = None,  # noqa: A002 - the word users know
        args: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        catch_up: CatchUpWord = "one",
        overlap: bool = True,
    ) -> DeclareSchedule:
        """Hand in a job every `period`: `@app.every("15m")` above `@app.task(…)`, or above a plain
        function, which becomes a task.
        """
        plan = plan_of(every=period, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return DeclareSchedule(self, self.registry, id, args, plan)

    def cron(
        self,
        line: str,
        /,
        *,
        tz: str | None = None,
        id: str | None = None,  # noqa: A002 - the word users know
        args: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        catch_up: CatchUpWord = "one",
        overlap: bool = True,
    ) -> DeclareSchedule:
        """Hand in a job at the times of a cron line: `@app.cron("0 3 * * *", tz="Europe/Berlin")`
        above `@app.task(…)`, or above a plain function. The default of `tz` is UTC.
        """
        plan = plan_of(cron=line, tz=tz, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return DeclareSchedule(self, self.registry, id, args, plan)

    def scanner(
        self,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | None = None,
        jitter: Duration = 0,
        **options: Unpack[ScannerOptions],
    ) -> DeclareScanner:
        """Declare a check that returns a `ScanReport`: `@app.scanner(every="15m")` above a plain
        function. It runs once for all workers, in one attempt, and never overlaps its last run. It
        takes the options of a task.
        """
        plan = plan_of(every=every, cron=cron, tz=tz, jitter=jitter, overlap=False)
        return DeclareScanner(self, self.registry, plan, options)
