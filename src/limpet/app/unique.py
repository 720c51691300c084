"""Uniqueness: of the jobs of a task with the same unique name, one is taken in at a time."""

from dataclasses import dataclass
from typing import Literal, get_args

from limpet.domain.checks import choice, set_fields, some_time
from limpet.domain.duration import Duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.rules import UniqueUntil, checked_key

OnConflict = Literal["existing", "drop", "replace"]


@dataclass(frozen=True, slots=True, init=False)
class Unique:
    """Keeps out other jobs of the task with the same `name`, and decides what happens to them.

    `until="started"`: while the job waits. "finished" (the default): until it is in a final state.
    A time, such as "10m": for that long after it was enqueued, however it ends.

    `on_conflict="existing"` returns the handle of the job that is there. "drop" returns a handle
    whose methods raise `DuplicateJob`. "replace" takes the place of a job that still waits; a
    running one goes on.
    """

    name: str
    until: UniqueUntil
    lasts: int | None
    on_conflict: OnConflict

    def __init__(
        self,
        name: str,
        until: Literal["started", "finished"] | Duration | None = None,
        on_conflict: OnConflict = "existing",
    ) -> None:
        checked_key(name, "unique")
        choice(on_conflict, "Unique: on_conflict", get_args(OnConflict))
        replaces = on_conflict == "replace"
        if until is None:
            until = "started" if replaces else "finished"
        if replaces and until != "started":
            raise InvalidOption(
                f"Unique: until={until!r} cannot be kept with on_conflict='replace', which takes "
                f"in every new job, even while another one runs; leave out until=, or use "
                f"on_conflict='existing'."
            )
        lasts: int | None = None
        if until in ("started", "finished"):
            end = UniqueUntil(str(until))
        else:
            end = UniqueUntil.TIME
            what = 'Unique: until (unless "started" or "finished")'
            lasts = microseconds(some_time(until, what))
        set_fields(self, name=name, on_conflict=on_conflict, until=end, lasts=lasts)
