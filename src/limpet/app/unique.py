"""To be the only one: of the jobs of a task with the same name, one is taken in at a time."""

from dataclasses import dataclass
from typing import Literal

from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.rules import UniqueUntil, checked_key

OnConflict = Literal["existing", "drop", "replace"]


@dataclass(frozen=True, slots=True, init=False)
class Unique:
    """What holds off other jobs of the task with the same `name`, and what becomes of them.

    `until="started"`: while the job waits. "finished" (the default): until it is in a final state.
    A time, such as "10m": for that long after it was enqueued, whatever becomes of it.

    `on_conflict="existing"` gives the handle of the job that is there, "drop" one that only says
    so, and "replace" takes the place of a job that still waits; one that runs goes on.
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
        if on_conflict not in ("existing", "drop", "replace"):
            raise InvalidOption(
                f"Unique: on_conflict is {on_conflict!r}; write 'existing', 'drop' or 'replace'."
            )
        replaces = on_conflict == "replace"
        if until is None:
            until = "started" if replaces else "finished"
        if replaces and until != "started":
            raise InvalidOption(
                f"Unique: until={until!r} cannot be kept with on_conflict='replace', which takes "
                f"in every new job, also beside one that runs; leave it out, or keep the existing."
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "on_conflict", on_conflict)
        if until in ("started", "finished"):
            object.__setattr__(self, "until", UniqueUntil(str(until)))
            object.__setattr__(self, "lasts", None)
        else:
            object.__setattr__(self, "until", UniqueUntil.TIME)
            object.__setattr__(self, "lasts", _lasts(until))


def _lasts(until: Duration) -> int:
    lasts = microseconds(duration(until, what='Unique: until (unless "started" or "finished")'))
    if not lasts:
        raise InvalidOption(f"Unique: until is {until!r}; write a time longer than nothing.")
    return lasts
