"""What the model keeps of a job and of a session."""

from dataclasses import dataclass, field

from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES, Rules
from limpet.domain.state import State
from limpet.domain.transition import Answer, Settlement

MINUTE = 60_000_000


@dataclass
class ModelJob:
    """A job; `number` is its place among all that were ever enqueued."""

    number: int
    new: NewJob
    created: int
    ready_at: int
    state: State
    expires: int | None
    deadline: int | None
    token: int = 0
    round: int = 1
    failures: int = 0
    orphans: int = 0
    strikes: int = 0
    holder: str | None = None
    begun: bool = False
    suspect: bool = False
    last_run: bool = False
    cancel_requested: bool = False
    finished: int | None = None
    # What it waits for while it is blocked, as a store keeps it; whether it has a turn of its key.
    waits: str | None = None
    turn: bool = False
    # For how many children; whether it is a parent that has just gone while it waited for them;
    # whether its own parent has been told that it was finished once.
    pending: int = 0
    gone: bool = False
    told: bool = False
    accepted: set[tuple[str, int, type[Settlement]]] = field(default_factory=set)

    @property
    def place(self) -> tuple[int, int]:
        return self.ready_at - self.new.priority * MINUTE, self.number

    @property
    def rules(self) -> Rules:
        return self.new.rules or NO_RULES

    @property
    def has_hook(self) -> bool:
        return "orphan_hook" in self.new.options

    def lapsed(self, now: int) -> bool:
        return any(at is not None and at <= now for at in (self.expires, self.deadline))

    def finish(self, state: State, now: int) -> None:
        self.state = state
        self.finished = now
        self.holder = None
        self.gone = self.gone or self.waits == "children:"
        self.waits, self.pending = None, 0

    def back(self, state: State, *, ready_at: int | None = None, started: bool) -> None:
        """From running to a state in which it waits."""
        self.state = state
        self.holder = None
        if ready_at is not None:
            self.ready_at = ready_at
        if started or self.begun:
            self.expires = None
        self.begun = False


@dataclass
class ModelSession:
    tasks: frozenset[str]
    lease: int
    moment: int
    state: str = "live"
    charged: bool = True
    ended: int | None = None
    seq: int = 0
    rejected: list[tuple[Lease, Answer]] = field(default_factory=list)
    claimed: list[Lease] = field(default_factory=list)
