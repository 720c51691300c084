"""The settings of a worker: the one place where each is declared.

Three things are made from it: the plan that travels to the processes of a worker, the names that
`limpet.toml` and the variables may set (`settings.worker`), and the options of `limpet worker`. A
new setting is one field here. Not a dataclass, because the guardian loads this module and must
stay small.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple


class SettingKind(StrEnum):
    """How a setting is written."""

    NAME = "name"
    QUEUES = "queues"  # queue → how many of its jobs may run at once
    COUNT = "count"
    TIME = "time"  # kept in seconds
    SIZE = "size"  # kept in bytes
    PERCENT = "percent"  # from 1 to 100
    SHARE = "share"  # above 0, and no more than 1
    SWITCH = "switch"


class Setting(NamedTuple):
    """A setting, beside its name, its type and its default.

    `least`, `most`: its bounds, in the unit in which it is kept. `otherwise`: what holds when it is
    not set, in words, if the default does not show it. `flags`: its names on the command line; None
    for one that is named like the setting, empty if it is no option there.
    """

    kind: SettingKind
    help: str
    least: float = 0
    most: float | None = None
    otherwise: str = ""
    flags: tuple[str, ...] | None = None


_Kind = SettingKind

SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS = 2, 3600
# No interpreter with an app in it is smaller; less is a slip of the unit.
SMALLEST_RSS_BYTES = 10_000_000


class WorkerSettings(NamedTuple):
    """The settings of a worker; times are seconds, sizes bytes, None is no limit or the default.

    `queues`: empty for all queues; a value of None is a queue without a limit of its own. `grace`:
    how long a stopped attempt may take to end. `pid_namespace`: contain executors in a pid
    namespace, where the system allows it.
    """

    name: Annotated[
        str | None, Setting(_Kind.NAME, "the name of this worker", otherwise="the host's name")
    ] = None
    queues: Annotated[
        Mapping[str, int | None],
        Setting(
            _Kind.QUEUES,
            "serve this queue, at most N of its jobs at once; may be repeated",
            otherwise="all queues",
            flags=("-q", "--queue"),
        ),
    ] = {}
    lanes: Annotated[
        int | None,
        Setting(
            _Kind.COUNT, "how many def tasks run at once", otherwise="as many as there are cores"
        ),
    ] = None
    async_jobs: Annotated[int, Setting(_Kind.COUNT, "how many async def tasks run at once")] = 100
    lease: Annotated[
        float,
        Setting(
            _Kind.TIME,
            "how long the store waits for a silent worker",
            least=SHORTEST_LEASE_SECONDS,
            most=LONGEST_LEASE_SECONDS,
        ),
    ] = 10.0
    drain: Annotated[
        float, Setting(_Kind.TIME, "how long running jobs may go on after SIGTERM")
    ] = 25.0
    grace: Annotated[
        float, Setting(_Kind.TIME, "how long a job may take to end after a request to stop")
    ] = 5.0
    max_jobs: Annotated[
        int | None, Setting(_Kind.COUNT, "replace an executor after so many jobs", least=1)
    ] = None
    max_rss: Annotated[
        int | None,
        Setting(
            _Kind.SIZE,
            "end an executor that holds more memory, as in 512MB",
            least=SMALLEST_RSS_BYTES,
        ),
    ] = None
    pid_namespace: Annotated[
        bool,
        Setting(_Kind.SWITCH, "contain executors in a pid namespace where allowed", flags=()),
    ] = True
    burst: Annotated[bool, Setting(_Kind.SWITCH, "stop when nothing is ready to run")] = False
    reload: Annotated[bool, Setting(_Kind.SWITCH, "start anew when the code changes")] = False
    server_id: Annotated[
        str | None,
        Setting(_Kind.NAME, "the name of this host at the gate", otherwise="the host's name"),
    ] = None
    gate_cpu: Annotated[
        float, Setting(_Kind.PERCENT, "begin no weighted job where others use more of the CPU")
    ] = 80.0
    gate_memory: Annotated[
        float, Setting(_Kind.PERCENT, "begin no weighted job above this use of the memory")
    ] = 90.0
    gate_pressure: Annotated[
        float, Setting(_Kind.PERCENT, "nor while work waits for memory this much of the time")
    ] = 10.0
    gate_io: Annotated[
        float, Setting(_Kind.PERCENT, "nor a heavy one while work waits for a disk this much")
    ] = 40.0
    gate_rise: Annotated[
        float, Setting(_Kind.SHARE, "how fast the average of the CPU rises, above 0 to 1")
    ] = 0.7
    gate_fall: Annotated[float, Setting(_Kind.SHARE, "how slowly the average of the CPU falls")] = (
        0.1
    )
