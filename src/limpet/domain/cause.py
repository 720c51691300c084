"""Why an attempt or a session ended: one class for each way of dying.

A cause is an exception, so that it can be raised and chained, and a record, so that the job's
timeline can keep it as JSON and another process can show it as a sentence.
"""

from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from limpet.domain.duration import spoken
from limpet.domain.errors import LimpetError
from limpet.domain.plural import number_of


@dataclass(eq=True, unsafe_hash=True)
class Cause(LimpetError):
    """A way of dying; its class name is its `kind` in the timeline."""

    # Whether a loss by this cause counts against the job; deploys and outages do not.
    charged: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return type(self).__name__

    def sentence(self) -> str:
        """What happened, for a person."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.sentence()

    def record(self) -> dict[str, Any]:
        """The cause as the timeline keeps it."""
        return {"kind": self.kind, **asdict(self), "text": self.sentence()}


def _when(wall: int) -> str:
    try:
        moment = datetime.fromtimestamp(wall / 1e6, UTC)
    except (ValueError, ArithmeticError, OSError):  # beyond the calendar
        return f"{wall} microseconds after 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


@dataclass(eq=True, unsafe_hash=True)
class WorkerKilled(Cause):
    """A process of the worker was ended by a signal."""

    signal: int | None
    process: str = "worker"

    def sentence(self) -> str:
        how = "ended" if self.signal is None else f"was killed by signal {self.signal}"
        return f"the {self.process} {how}"


@dataclass(eq=True, unsafe_hash=True)
class WorkerVanished(Cause):
    """The session's lease ran out and nobody renewed it."""

    last_seen: int

    def sentence(self) -> str:
        return f"the worker was last seen at {_when(self.last_seen)} and its lease ran out"


@dataclass(eq=True, unsafe_hash=True)
class WorkerGone(Cause):
    """Proof on its own host that every process of the session is dead."""

    last_seen: int

    def sentence(self) -> str:
        return f"every process of the worker is dead; it was last seen at {_when(self.last_seen)}"


@dataclass(eq=True, unsafe_hash=True)
class WorkerFrozen(Cause):
    """The process got no processor time for too long and was ended."""

    seconds: float

    def sentence(self) -> str:
        return f"its process was frozen for {self.seconds:.1f} s and was ended"


@dataclass(eq=True, unsafe_hash=True)
class ExecutorExited(Cause):
    """The process that ran the job exited by itself."""

    code: int
    process: str = "process that ran the job"

    def sentence(self) -> str:
        return f"the {self.process} exited with code {self.code}"


@dataclass(eq=True, unsafe_hash=True)
class ExecutorGarbled(Cause):
    """The process that ran the job broke the protocol with its worker, which ended it."""

    reason: str = "something wrote into its socket"

    def sentence(self) -> str:
        return (
            f"the process that ran the job could not be understood any more ({self.reason}), and "
            f"was ended"
        )


@dataclass(eq=True, unsafe_hash=True)
class OutOfMemory(Cause):
    """The process that ran the job was ended for its use of memory."""

    used: int | None = None
    limit: int | None = None

    def sentence(self) -> str:
        sizes = f" ({self.used} of {self.limit} bytes)" if self.used and self.limit else ""
        return f"the process that ran the job ran out of memory{sizes}"


@dataclass(eq=True, unsafe_hash=True)
class HostRebooted(Cause):
    """The machine restarted, so no process of the session can be alive."""

    boot: str

    def sentence(self) -> str:
        return f"the machine was restarted (the session was of boot {self.boot[:8]})"


@dataclass(eq=True, unsafe_hash=True)
class StoreOutage(Cause):
    """The worker could not reach the store for a whole lease."""

    charged: ClassVar[bool] = False
    seconds: float

    def sentence(self) -> str:
        return f"the store could not be reached for {self.seconds:.1f} s"


@dataclass(eq=True, unsafe_hash=True)
class BegunAnew(Cause):
    """The worker gave up its session and went on with a new one."""

    charged: ClassVar[bool] = False
    reason: str

    def sentence(self) -> str:
        return f"the worker had to begin a new session: {self.reason}"


@dataclass(eq=True, unsafe_hash=True)
class Needs(Cause):
    """The job cannot start before something exists, such as its task."""

    charged: ClassVar[bool] = False
    what: str
    name: str

    def sentence(self) -> str:
        return f"needs {self.what} {self.name}"


@dataclass(eq=True, unsafe_hash=True)
class Drained(Cause):
    """The worker was asked to stop and handed the job back."""

    charged: ClassVar[bool] = False

    def sentence(self) -> str:
        return "the worker was asked to stop"


@dataclass(eq=True, unsafe_hash=True)
class HostPressed(Cause):
    """The host ran short of memory, and the job's task has `on_pressure="release"`."""

    charged: ClassVar[bool] = False
    server: str
    reason: str

    def sentence(self) -> str:
        return f"{self.server} ran short of memory ({self.reason}), and the job gave way"


@dataclass(eq=True, unsafe_hash=True)
class NeighbourEnded(Cause):
    """The process that ran the job was ended because of another job in it."""

    charged: ClassVar[bool] = False

    def sentence(self) -> str:
        return "its process had to be ended because of another job"


@dataclass(eq=True, unsafe_hash=True)
class NotStarted(Cause):
    """The job was handed back before it began."""

    charged: ClassVar[bool] = False
    reason: str = "the worker had no room for it"

    def sentence(self) -> str:
        return f"the job had not begun: {self.reason}"


@dataclass(eq=True, unsafe_hash=True)
class TimedOut(Cause):
    """The attempt ran longer than its timeout."""

    seconds: float

    def sentence(self) -> str:
        return (
            f"the attempt ran longer than its timeout of {spoken(timedelta(seconds=self.seconds))}"
        )


@dataclass(eq=True, unsafe_hash=True)
class Stalled(Cause):
    """The attempt made no progress for as long as its `stall_after`."""

    seconds: float

    def sentence(self) -> str:
        return f"the attempt made no progress for {spoken(timedelta(seconds=self.seconds))}"


@dataclass(eq=True, unsafe_hash=True)
class TooManyOrphans(Cause):
    """The job was lost with its holder as often as the cap allows."""

    count: int

    def sentence(self) -> str:
        return f"the job was lost with its worker {number_of(self.count, 'time')}"


@dataclass(eq=True, unsafe_hash=True)
class TooManyStrikes(Cause):
    """The job ended the process that it ran in alone, as often as the cap allows."""

    count: int

    def sentence(self) -> str:
        return f"the job ended the process that ran it {number_of(self.count, 'time')}"


@dataclass(eq=True, unsafe_hash=True)
class Expired(Cause):
    """The job did not start before its `expires`."""

    at: int

    def sentence(self) -> str:
        return f"the job had not started when it expired at {_when(self.at)}"


@dataclass(eq=True, unsafe_hash=True)
class DeadlinePassed(Cause):
    """The job was not finished at its `deadline`."""

    at: int

    def sentence(self) -> str:
        return f"the job was not finished at its deadline, {_when(self.at)}"


@dataclass(eq=True, unsafe_hash=True)
class Requested(Cause):
    """A person or a program requested it."""

    charged: ClassVar[bool] = False
    reason: str = ""

    def sentence(self) -> str:
        return self.reason or "somebody requested it"


@dataclass(eq=True, unsafe_hash=True)
class ChildFailed(Cause):
    """A child that the job cannot run without has failed or was cancelled."""

    charged: ClassVar[bool] = False
    job: str
    state: str

    def sentence(self) -> str:
        return f"its child {self.job} is {self.state}"


@dataclass(eq=True, unsafe_hash=True)
class ParentGone(Cause):
    """The parent of the job failed or was cancelled, so nobody waits for the job any more."""

    charged: ClassVar[bool] = False
    job: str

    def sentence(self) -> str:
        return f"its parent {self.job} failed or was cancelled"


@dataclass(eq=True, unsafe_hash=True)
class Replaced(Cause):
    """A newer job with the same `unique` took its place."""

    charged: ClassVar[bool] = False
    by: str

    def sentence(self) -> str:
        return f"the newer job {self.by} took its place"


@dataclass(eq=True, unsafe_hash=True)
class LateHolder(Cause):
    """A holder whose lease was over tried to report."""

    charged: ClassVar[bool] = False
    tried: str

    def sentence(self) -> str:
        return f"a worker that no longer held the job tried to {self.tried} it; refused"


@dataclass(eq=True, unsafe_hash=True)
class Raised(Cause):
    """The task raised an exception."""

    type: str
    message: str
    traceback: str = ""

    def sentence(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(eq=True, unsafe_hash=True)
class Unknown(Cause):
    """A cause that a newer version of Limpet recorded: its name and its sentence."""

    was: str
    text: str

    def sentence(self) -> str:
        return self.text or self.was


# Whole numbers are exact up to here wherever a cause is kept; no fact is larger.
_LARGEST_NUMBER = 2**53

_KINDS: dict[str, type[Cause]] = {kind.__name__: kind for kind in Cause.__subclasses__()}


def cause_of(record: dict[str, Any]) -> Cause:
    """Read a cause from the timeline; raises `TypeError` for a record that is no cause.

    A cause of a newer version becomes `Unknown`, and so does one with wrong facts.
    """
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise TypeError("a cause is an object with a kind")
    kind = _KINDS.get(record["kind"])
    if kind is not None:
        known = {field.name: record[field.name] for field in fields(kind) if field.name in record}
        if _fits(kind, known):
            try:
                cause = kind(**known)
                cause.sentence()
            except (TypeError, ValueError, ArithmeticError, OSError):
                pass  # a fact is missing, or it is a time or a number that cannot be shown
            else:
                return cause
    return Unknown(was=record["kind"], text=str(record.get("text", "")))


def _fits(kind: type[Cause], facts: dict[str, Any]) -> bool:
    """Whether the facts have the types of the cause's fields; a float may be a whole number."""
    for field in fields(kind):
        if field.name in facts:
            wanted: Any = float | int if field.type is float else field.type
            value = facts[field.name]
            if isinstance(value, bool) or not isinstance(value, wanted):
                return False
            # Every process and store that the cause passes through must be able to write it.
            if isinstance(value, int | float) and not abs(value) <= _LARGEST_NUMBER:
                return False
    return True
