"""What a store refuses and why, in the same words in each."""

from limpet.domain.errors import (
    InvalidOption,
    MoveRefused,
    SequenceError,
    SessionLost,
    StoreNotMoved,
    StoreRolledBack,
)
from limpet.domain.state import State


def session_not_known(session: str) -> StoreRolledBack:
    return StoreRolledBack(
        f"the store does not know session {session}: it was rolled back, or the session was "
        f"pruned. Stop what it runs and register anew."
    )


def session_dead(session: str) -> SessionLost:
    return SessionLost(f"session {session} is dead; register under a new id.")


def exchange_too_old(session: str, seq: int, last: int) -> SequenceError:
    return SequenceError(
        f"session {session} sent exchange {seq} after {last} was answered; the next is "
        f"{last + 1}, and nothing was done."
    )


def exchange_forgotten(session: str, seq: int, last: int) -> StoreRolledBack:
    return StoreRolledBack(
        f"session {session} sent exchange {seq}, but the store remembers only {last}: it "
        f"was rolled back. Stop what the session runs and register anew."
    )


def answer_forgotten(session: str, seq: int) -> StoreRolledBack:
    return StoreRolledBack(
        f"the store has lost its answer to exchange {seq} of session {session}. Stop what the "
        f"session runs and register anew."
    )


def not_finished(job: str, state: State, round_: int, seen_round: int) -> MoveRefused:
    return MoveRefused(
        f"job {job} is {state} in round {round_}; only a finished job can be retried "
        f"(you asked about round {seen_round})."
    )


def unique_held(job: str) -> MoveRefused:
    return MoveRefused(
        f"job {job} cannot be retried, because another job of its task holds its `unique` now; "
        f"wait for that one, or cancel it."
    )


def not_quarantined(job: str, state: State) -> MoveRefused:
    return MoveRefused(f"job {job} is {state}; only a quarantined job can be repaired.")


def cursor_not_given(cursor: str) -> InvalidOption:
    return InvalidOption(f"cursor {cursor!r}: use the one that the last page gave.")


def not_arriving(move: str) -> StoreNotMoved:
    return StoreNotMoved(
        f"the store takes no cargo of the move {move}: that was finished or given up meanwhile; "
        f"nothing was written."
    )
