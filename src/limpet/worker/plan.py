"""What a worker was asked to do, as it travels from the command line to each of its processes."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from limpet.domain.worker_settings import WorkerSettings

VARIABLE = "LIMPET_PLAN"
_ORDER = "LIMPET_ORDER"


# How a supervisor says to the guardian, and the worker to its caller, what should come next.
DONE, WRONG_USAGE, ANEW = 0, 2, 75


class Plan(NamedTuple):
    """What the processes of a worker share; times are seconds.

    `url`: a store that the command line names; else the app's own. `name`: that of the worker, also
    where the settings give it none.
    """

    app: str
    url: str | None = None
    name: str = "worker"
    settings: WorkerSettings = WorkerSettings()
    log_level: str = "info"
    log_style: str = "plain"
    debug: bool = False

    @property
    def renewal(self) -> float:
        """Seconds between two renewals."""
        return self.settings.lease / 5

    @property
    def margin(self) -> float:
        """How long before the lease ends everything must have stopped."""
        return max(1.0, self.settings.lease / 10)

    @property
    def frozen(self) -> float:
        """How long a process may stand still before the kernel ends it."""
        return self.settings.lease / 4

    @property
    def deaf(self) -> float:
        """How long the zygote may leave a question unanswered."""
        return max(self.frozen, 1.0)

    @property
    def queues_in_words(self) -> str:
        """Which queues are served, as the log says it."""
        if not (queues := self.settings.queues):
            return "all queues"
        return ", ".join(f"{name}={most}" if most else name for name, most in queues.items())

    def environment(self, order: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The variables in which a process of the worker finds this plan, and its own order."""
        plan = {**self._asdict(), "settings": self.settings._asdict()}
        variables = {VARIABLE: json.dumps(plan)}
        return variables if order is None else {**variables, _ORDER: json.dumps(order)}


def from_environment() -> Plan:
    """The plan of this process; taken out, because what a job starts is not part of the worker."""
    known: dict[str, Any] = json.loads(os.environ.pop(VARIABLE))
    return Plan(**{**known, "settings": WorkerSettings(**known["settings"])})


def order_from_environment() -> dict[str, Any]:
    """What this process in particular was asked to do; taken out like the plan."""
    known: dict[str, Any] = json.loads(os.environ.pop(_ORDER))
    return known


class Order(NamedTuple):
    """What the supervisor gives a zygote: descriptors, and how to start.

    `spawn`: the app has threads, so it is not imported here. `contained`: this process is already
    PID 1 of its own namespace. `sources`: what the code looked like before it was imported.
    """

    channel: int
    page: int
    lock: int
    namespace: bool = False
    contained: bool = False
    spawn: bool = False
    sources: str = ""

    @property
    def descriptors(self) -> tuple[int, int, int]:
        return (self.channel, self.page, self.lock)
