"""What a worker was asked to do, as it travels from the command line to each of its processes."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

VARIABLE = "LIMPET_PLAN"
_ORDER = "LIMPET_ORDER"


class Plan(NamedTuple):
    """Times are seconds, sizes bytes; None means the default or no limit.

    `url`: a store that the command line names; else the app's own. `queues`: queue → most at
    once; empty for all. `grace`: how long an attempt that was asked to stop may take. `server_id`:
    the name of the host; None for its own. `gate_…`: as in the settings of a worker.
    """

    app: str
    url: str | None = None
    name: str = "worker"
    queues: Mapping[str, int | None] = {}
    lanes: int | None = None
    async_jobs: int = 100
    lease: float = 10.0
    drain: float = 25.0
    grace: float = 5.0
    max_jobs: int | None = None
    max_rss: int | None = None
    pid_namespace: bool = True
    burst: bool = False
    reload: bool = False
    server_id: str | None = None
    gate_cpu: float = 80.0
    gate_memory: float = 90.0
    gate_pressure: float = 10.0
    gate_io: float = 40.0
    gate_rise: float = 0.7
    gate_fall: float = 0.1
    log_level: str = "info"
    log_style: str = "plain"
    debug: bool = False

    @property
    def renewal(self) -> float:
        """Seconds between two renewals."""
        return self.lease / 5

    @property
    def margin(self) -> float:
        """How long before the lease ends everything must have stopped."""
        return max(1.0, self.lease / 10)

    @property
    def frozen(self) -> float:
        """How long a process may stand still before the kernel ends it."""
        return self.lease / 4

    @property
    def deaf(self) -> float:
        """How long the zygote may leave a question unanswered."""
        return max(self.frozen, 1.0)

    @property
    def queues_in_words(self) -> str:
        """Which queues are served, as the log says it."""
        if not self.queues:
            return "all queues"
        return ", ".join(f"{name}={most}" if most else name for name, most in self.queues.items())

    def environment(self, order: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The variables in which a process of the worker finds this plan, and its own order."""
        told = {VARIABLE: json.dumps(self._asdict())}
        return told if order is None else {**told, _ORDER: json.dumps(order)}


def from_environment() -> Plan:
    """The plan of this process; taken out, because what a job starts is not part of the worker."""
    known: dict[str, Any] = json.loads(os.environ.pop(VARIABLE))
    return Plan(**known)


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
