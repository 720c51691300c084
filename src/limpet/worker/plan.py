"""What a worker was asked to do, as it travels from the command line to each of its processes."""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "LIMPET_PLAN"


@dataclass(frozen=True, slots=True)
class Plan:
    """Times are seconds, sizes bytes; None means the default or no limit.

    `url`: a store that the command line names; else the app's own. `queues`: queue → most at
    once; empty for all. `grace`: how long an attempt that was asked to stop may take.
    """

    app: str
    url: str | None = None
    name: str = "worker"
    queues: dict[str, int | None] = field(default_factory=dict)
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
    log_level: str = "info"
    log_style: str = "plain"

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

    def environment(self) -> dict[str, str]:
        """The environment in which a process of the worker finds this plan."""
        return {VARIABLE: json.dumps(asdict(self))}


def from_environment() -> Plan:
    """The plan of this process; taken out, because what a job starts is not part of the worker."""
    known: dict[str, Any] = json.loads(os.environ.pop(VARIABLE))
    return Plan(**known)


@dataclass(frozen=True, slots=True)
class Order:
    """What the supervisor gives a zygote: descriptors, and how to start.

    `spawn`: the app has threads, so it is not imported here. `contained`: this process is already
    PID 1 of its own namespace.
    """

    channel: int
    page: int
    lock: int
    namespace: bool = False
    contained: bool = False
    spawn: bool = False

    def environment(self) -> dict[str, str]:
        return {"LIMPET_ORDER": json.dumps(asdict(self))}

    @property
    def descriptors(self) -> tuple[int, int, int]:
        return (self.channel, self.page, self.lock)
