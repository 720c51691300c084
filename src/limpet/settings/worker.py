"""The settings of a worker: arguments, `LIMPET_*` variables, or the table `[worker]`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from limpet.domain.errors import InvalidOption
from limpet.domain.load import USUAL_SMOOTHING
from limpet.settings import values
from limpet.settings.file import FILE, WORKER, here, lines_of, refuse_unknown

SHORTEST_LEASE = timedelta(seconds=2)
LONGEST_LEASE = timedelta(hours=1)
# No interpreter with an app in it is smaller; less is a slip of the unit.
SMALLEST_RSS = 10_000_000


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What can be set of a worker.

    `queues`: queue → the most of its jobs at once, None for no limit of its own; empty for all
    queues. `lanes`: how many `def` tasks run at once, None for as many as there are cores.
    `async_jobs`: how many `async def` tasks. `lease`: how long the store waits for a silent worker.
    `drain`: how long running jobs may go on after SIGTERM. `grace`: how long a stopped attempt may
    take to end. `max_jobs`, `max_rss` (bytes): after that much an executor is replaced.
    `pid_namespace`: contain executors in one, where that is allowed. `burst`: end when there is
    nothing left to do. `reload`: start anew when the code changes. `server_id`: under which its
    host is known, None for the host's name or what stands for it. `gate_cpu`, `gate_memory`: from
    which use of them, in percent, no weighted work begins; `gate_pressure`: from which share of the
    time in which work waits for memory; `gate_io`: no heavy work from which share in which it waits
    for a disk. `gate_rise`, `gate_fall`: how much of the way to each new sample the average of the
    CPU goes, upwards and downwards.
    """

    name: str | None = None
    queues: Mapping[str, int | None] = field(default_factory=dict)
    lanes: int | None = None
    async_jobs: int = 100
    lease: timedelta = timedelta(seconds=10)
    drain: timedelta = timedelta(seconds=25)
    grace: timedelta = timedelta(seconds=5)
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
    gate_rise: float = USUAL_SMOOTHING.rise
    gate_fall: float = USUAL_SMOOTHING.fall


_percentage = partial(values.a_share, least=1, most=100)
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "name": values.a_name,
    "queues": values.some_queues,
    "lanes": partial(values.a_count, least=0),
    "async_jobs": partial(values.a_count, least=0),
    "lease": partial(values.a_time, least=SHORTEST_LEASE, most=LONGEST_LEASE),
    "drain": values.a_time,
    "grace": values.a_time,
    "max_jobs": partial(values.a_count, least=1),
    "max_rss": partial(values.a_size, least=SMALLEST_RSS),
    "pid_namespace": values.a_switch,
    "burst": values.a_switch,
    "reload": values.a_switch,
    "server_id": values.a_name,
    "gate_cpu": _percentage,
    "gate_memory": _percentage,
    "gate_pressure": _percentage,
    "gate_io": _percentage,
    "gate_rise": partial(values.a_share, least=0, most=1),
    "gate_fall": partial(values.a_share, least=0, most=1),
}


def load_worker(
    *,
    given: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> WorkerSettings:
    """The worker's settings in force; a wrong one is refused with its source.

    `given`: the arguments by name; None, or an empty list of queues, is as if not given.
    """
    variables = os.environ if environ is None else environ
    path = (folder or here()) / FILE
    lines = lines_of(path).get(WORKER, {})
    known = tuple(each.name for each in fields(WorkerSettings))
    refuse_unknown(lines, known, f"[{WORKER}] in {path}")
    refuse_unknown(dict(given), known, "worker")
    found: dict[str, Any] = {}
    for name in known:
        variable = f"LIMPET_{name.upper()}"
        argument = given.get(name)
        if argument is not None and argument not in ([], ()):
            found[name] = _READERS[name](argument, name)
        elif variables.get(variable):
            found[name] = _READERS[name](variables[variable], variable)
        elif name in lines:
            found[name] = _READERS[name](lines[name], f"{name} in [{WORKER}] of {path}")
    settings = WorkerSettings(**found)
    if settings.lanes == 0 and settings.async_jobs == 0:
        raise InvalidOption(
            "lanes and async_jobs are both 0, so the worker could run nothing; raise one of them."
        )
    if settings.gate_fall > settings.gate_rise:
        raise InvalidOption(
            f"gate_fall is {settings.gate_fall:g} and gate_rise {settings.gate_rise:g}; the "
            f"average must not fall faster than it rises, because a dip is not room."
        )
    return settings
