"""The result of a child, as its parent gets it."""

from dataclasses import dataclass, field
from typing import Any

from limpet.domain.cause import Cause
from limpet.domain.state import State


@dataclass(frozen=True, slots=True)
class ChildResult:
    """One child of a job: `result` is what it returned, `error` why it did not."""

    id: str
    task: str
    state: State
    # Not in the repr, because it may hold secrets.
    result: Any = field(default=None, repr=False)
    error: Cause | None = None

    @property
    def succeeded(self) -> bool:
        return self.state is State.SUCCEEDED
