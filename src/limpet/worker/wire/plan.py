"""What a worker was asked to do, as it travels from the command line to each of its processes."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from limpet.domain.worker_settings import WorkerSettings

VARIABLE = "LIMPET_PLAN"
_ORDER = "LIMPET_ORDER"


# Exit codes of a supervisor, and of a worker: done, cannot be used like this, start anew.
DONE, WRONG_USAGE, ANEW = 0, 2, 75


class Plan(NamedTuple):
    """What the processes of a worker share.

    `url`: the store that the command line names; None for the app's own. `name`: the name of the
    worker, also where the settings give none.
    """

    app: str
    url: str | None = None
    name: str = "worker"
    settings: WorkerSettings = WorkerSettings()
    log_level: str = "info"
    log_style: str = "plain"
    debug: bool = False

    @property
    def renewal_seconds(self) -> float:
        """Seconds between two renewals."""
        return self.settings.lease / 5

    @property
    def margin_seconds(self) -> float:
        """How long before the end of the lease everything must have stopped."""
        return max(1.0, self.settings.lease / 10)

    @property
    def freeze_seconds(self) -> float:
        """How long a process may stand still before the kernel ends it."""
        return self.settings.lease / 4

    @property
    def ping_timeout_seconds(self) -> float:
        """How long the zygote may leave a ping unanswered."""
        return max(self.freeze_seconds, 1.0)

    @property
    def queues_in_words(self) -> str:
        """The queues that are served, as the log shows them."""
        if not (queues := self.settings.queues):
            return "all queues"
        return ", ".join(f"{name}={most}" if most else name for name, most in queues.items())

    def environment(self, order: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The variables that carry this plan, and the process's own order, to a new process."""
        plan = {**self._asdict(), "settings": self.settings._asdict()}
        variables = {VARIABLE: json.dumps(plan)}
        return variables if order is None else {**variables, _ORDER: json.dumps(order)}


def from_environment() -> Plan:
    """The plan of this process; removed, because programs that jobs start must not inherit it."""
    known: dict[str, Any] = json.loads(os.environ.pop(VARIABLE))
    return Plan(**{**known, "settings": WorkerSettings(**known["settings"])})


def order_from_environment() -> dict[str, Any]:
    """What this process in particular was asked to do; removed like the plan."""
    known: dict[str, Any] = json.loads(os.environ.pop(_ORDER))
    return known


class Order(NamedTuple):
    """What the supervisor gives to a zygote: descriptors, and how to start.

    `spawn`: the app has threads, so the zygote does not import it. `contained`: the zygote is
    already PID 1 of its own namespace. `sources`: the digest of the code before its import.
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
