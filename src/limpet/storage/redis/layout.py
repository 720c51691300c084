"""The only definition of the fields in the texts that the scripts pack.

Python reads and writes rows by these fields. A script names a field; before the script goes to the
server, the name is replaced by a number, so that it costs no more than a number in the script:

- `@row.token`: the place of its first byte, counted from 1, as Lua counts;
- `@row.token.last`: that of its last byte;
- `@row.token.format`: how `struct` packs it, in quotes;
- `@row.claimed_at:finished_at`: how `struct` packs these fields and all between them, in quotes;
- `@flag.hook`, `@state.ready`: the number of the flag or state; `@state.ready.byte`: as a text.

Stores keep these texts: a field that moves needs a new version of the schema.
"""

import re
from dataclasses import dataclass
from struct import Struct
from typing import Annotated, NamedTuple, TypeAlias, get_type_hints

from limpet.domain.state import State

# How Lua packs a field; times that are not set are NONE.
B: TypeAlias = Annotated[int, "B"]
I4: TypeAlias = Annotated[int, "I4"]
Signed4: TypeAlias = Annotated[int, "i4"]
I6: TypeAlias = Annotated[bytes, "I6"]
I8: TypeAlias = Annotated[int, "I8"]
D: TypeAlias = Annotated[float, "d"]

NONE = -1

# The same for Python, which has no number of six bytes.
_IN_PYTHON = {"B": "B", "I4": "I", "i4": "i", "I6": "6s", "I8": "Q", "d": "d"}


class RowFields(NamedTuple):
    """Everything about a job that changes. The id of its session and its line (queue, a slash,
    task) follow.
    """

    state: B
    begun: B
    token: I8
    seq: I4  # of the exchange that claimed the job, and its pool there
    pool: B
    claimed_at: D
    finished_at: D
    suspect: B
    last_run: B
    flags: B
    round: I4
    failures: I4
    orphans: I4
    strikes: I4
    expires_at: D
    deadline_at: D
    requested_at: D  # when its cancellation was requested
    priority: Signed4
    ready_at: D
    created_at: D
    number: I6  # its place among all that were enqueued
    session_length: B


class HeldFields(NamedTuple):
    """What a session keeps of a job that it holds. The line of the job follows.

    The kind is 0 for a plain job; 1 for a job that may have an error or a request to cancel it,
    is of a flow, or has a permit; 2 for a job that is plain but for its key, which follows the
    line after a zero byte.
    """

    kind: B
    begun: B
    token: I8


class Place(NamedTuple):
    """A job in its line; of jobs with one score the older is first. The id of the job follows."""

    number: I6


class ReservationFields(NamedTuple):
    """When the holder of a reservation was last passed over, and the token of that job: a claim of
    the job changes the token, and so ends the reservation. A caller outside has the token of no
    job. The job or the session follows.
    """

    at: D
    token: I8


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a text, one after the other, most significant byte first, and what follows."""

    codes: dict[str, str]
    rest: str

    def offset(self, field: str) -> int:
        """How many bytes stand before a field."""
        names = list(self.codes)
        return self.packing(*names[: (*names, self.rest).index(field)]).size

    def between(self, first: str, last: str) -> list[str]:
        """The names of these fields and of all between them."""
        names = list(self.codes)
        return names[names.index(first) : names.index(last) + 1]

    def packing(self, *names: str) -> Struct:
        """How Python packs fields that follow each other."""
        return Struct(">" + "".join(_IN_PYTHON[self.codes[name]] for name in names))

    def in_lua(self, *names: str) -> str:
        """How Lua packs fields that follow each other."""
        return ">" + "".join(self.codes[name] for name in names)


def _layout(fields: type, rest: str) -> Layout:
    hints = get_type_hints(fields, include_extras=True)
    return Layout({name: hint.__metadata__[0] for name, hint in hints.items()}, rest)


ROW = _layout(RowFields, "session")
LAYOUTS = {
    "row": ROW,
    "held": _layout(HeldFields, "line"),
    "place": _layout(Place, "id"),
    "reservation": _layout(ReservationFields, "holder"),
}

# What a row's job has: a hook; a parent or children; a key; a turn of the key; rules of its own for
# the key; a parent that was gone before the job ended, so that its end counts for no job; a unique.
FLAGS = ("hook", "family", "keyed", "turn", "ruled", "loose", "unique")
HOOK, FAMILY, KEYED, TURN, RULED, LOOSE, UNIQUE = (1 << bit for bit in range(len(FLAGS)))

STATES = (
    State.SCHEDULED,
    State.READY,
    State.BLOCKED,
    State.RUNNING,
    State.QUARANTINED,
    State.SUCCEEDED,
    State.FAILED,
    State.CANCELLED,
)

_NUMBERS = {
    "flag": {name: 1 << bit for bit, name in enumerate(FLAGS)},
    "state": {str(state): number for number, state in enumerate(STATES, 1)},
}
_PLACEHOLDER = re.compile(r"@(\w+)\.(\w+)(?::(\w+)|\.(format|last|byte)\b)?")


def in_numbers(text: str) -> str:
    """A script with numbers in place of the names of fields."""
    return _PLACEHOLDER.sub(_number, text)


def _number(found: "re.Match[str]") -> str:
    kind, field, last, part = found.groups()
    if kind in _NUMBERS:
        number = _NUMBERS[kind][field]
        return f"'\\{number}'" if part == "byte" else str(number)
    layout = LAYOUTS[kind]
    if last or part == "format":
        return f"'{layout.in_lua(*layout.between(field, last or field))}'"
    if part == "last":
        return str(layout.offset(field) + layout.packing(field).size)
    return str(layout.offset(field) + 1)
