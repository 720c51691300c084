"""The refusals of stores: the same errors in the same words for each."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from limpet.domain.errors import (
    InvalidOption,
    MoveRefused,
    SchemaMismatch,
    SequenceError,
    SessionLost,
    StoreBusy,
    StoreNotMoved,
    StoreRolledBack,
)
from limpet.domain.state import State

P = ParamSpec("P")
T = TypeVar("T")


def made_before_release(store: str) -> SchemaMismatch:
    """The refusal of a store from before the first release, whose versions counted differently."""
    return SchemaMismatch(
        f"{store} was made by an unreleased version of Limpet; this one can neither use it nor "
        f"bring it up to date, and changed nothing. Finish its jobs with the version that made it, "
        f"or name a new store."
    )


def session_not_known(session: str) -> StoreRolledBack:
    return StoreRolledBack(
        f"the store does not know session {session}: it was rolled back, or the session was "
        f"pruned. Stop what it runs and register anew."
    )


def session_dead(session: str) -> SessionLost:
    return SessionLost(f"session {session} is dead; register under a new id.")


def exchange_too_old(session: str, seq: int, last: int) -> SequenceError:
    return SequenceError(
        f"session {session} sent exchange {seq} although exchange {last} was answered; nothing "
        f"was done. The next one is {last + 1}."
    )


def exchange_forgotten(session: str, seq: int, last: int) -> StoreRolledBack:
    return StoreRolledBack(
        f"session {session} sent exchange {seq}, but the last one in the store is {last}: the "
        f"store was rolled back. Stop what the session runs and register anew."
    )


def answer_forgotten(session: str, seq: int) -> StoreRolledBack:
    return StoreRolledBack(
        f"the store has lost its answer to exchange {seq} of session {session}. Stop what the "
        f"session runs and register anew."
    )


def not_finished(job: str, state: State, round_: int, seen_round: int) -> MoveRefused:
    return MoveRefused(
        f"job {job} is {state} in round {round_}; only a finished job can be retried "
        f"(the request was about round {seen_round})."
    )


def unique_held(job: str) -> MoveRefused:
    return MoveRefused(
        f"job {job} cannot be retried, because another job of its task holds its `unique` now; "
        f"wait for that one, or cancel it."
    )


def not_quarantined(job: str, state: State) -> MoveRefused:
    return MoveRefused(f"job {job} is {state}; only a quarantined job can be repaired.")


def cursor_not_given(cursor: str) -> InvalidOption:
    return InvalidOption(f"cursor {cursor!r} is not valid; use the cursor of the last page.")


def not_arriving(move: str) -> StoreNotMoved:
    return StoreNotMoved(
        f"the store takes no cargo of the move {move}, which was finished or given up meanwhile; "
        f"nothing was written."
    )


def no_text(error: UnicodeEncodeError) -> InvalidOption:
    """The refusal of a text that has half of a surrogate pair, which no store can keep."""
    around = error.object[max(0, error.start - 20) : error.end + 20]
    return InvalidOption(
        f"{around!r} contains half of a surrogate pair, which is not valid text; nothing was "
        f"written."
    )


def of_texts(verb: Callable[P, T]) -> Callable[P, T]:
    """Wrap a verb that writes texts, so that it refuses an invalid text with `no_text`."""

    @wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(*args, **kwargs)
        except UnicodeEncodeError as error:
            raise no_text(error) from error

    return checked


def nobody_writes(path: str, seconds: float) -> StoreBusy:
    """The refusal of a write that waited too long for the writer lock, and was withdrawn."""
    return StoreBusy(
        f"could not write to {path} for {seconds:.0f} s, because another process holds the writer "
        f"lock; nothing was written. Look for a stopped process that has the file open."
    )
