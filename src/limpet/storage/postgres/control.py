"""What a person does to a job: cancel, retry, repair, requeue. And to a queue: pause."""

import time
from collections.abc import Sequence

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.state import State
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.refusals import not_finished, not_quarantined, unique_held
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import repaired, to_json

_UNIQUE_HELD = -1
_MOST_LOOKS, _LOOK_SECONDS = 50, 0.005


def cancel(database: Database, job: str, reason: str) -> State:
    """Cancel a job, or request it of the holder; see `ControlVerbs.cancel`."""
    cause = to_json(Requested(reason=reason).record())
    ((state, busy),) = database.once(lambda tx: tx.call("call_off", job, cause, tx.wall))
    if state is None:
        raise JobNotFound(job)
    # A child that is just being claimed must not run on until the next promote. Waiting for the
    # child inside the transaction could deadlock (functions/06_turns.sql, locks).
    for _ in range(_MOST_LOOKS if busy else 0):
        if not database.once(_notes_are_left):
            break
        time.sleep(_LOOK_SECONDS)
    return State(state)


def _notes_are_left(tx: Transaction) -> bool:
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    ((turns, more),) = tx.call("notes", now, True)
    if turns:
        tx.rings.add(Topic.READY)
    return bool(more)


def retry(tx: Transaction, job: str, seen_round: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    ((source, round_),) = tx.call("retry", job, seen_round, tx.wall)
    if source is None:
        raise JobNotFound(job)
    if round_ == _UNIQUE_HELD:
        raise unique_held(job)
    if round_ != seen_round + 1:
        raise not_finished(job, State(source), round_, seen_round)
    return int(round_)


def repair(
    tx: Transaction, job: str, args: str, payload_version: int, secrets: Sequence[str]
) -> State:
    """Make a quarantined job ready with other arguments; see `RepairVerbs.repair`."""
    column([args])  # refuses what cannot be stored
    params = job, args, payload_version, to_json(list(secrets)), tx.wall
    ((source, state),) = tx.call("repair", *params)
    if source is None:
        raise JobNotFound(job)
    if state is None:
        raise not_quarantined(job, State(source))
    ((options,),) = tx.run("control", "options", id=job)
    if repaired(options) != options:
        tx.run("control", "no_options", id=job)
    return State(state)


def requeue(tx: Transaction, jobs: Sequence[str], queue: str) -> int:
    """Move waiting jobs to another queue; see `RepairVerbs.requeue`."""
    ((moved,),) = tx.call("requeue", column(list(jobs)), queue, tx.wall)
    return int(moved)


def pause(tx: Transaction, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    tx.call("pass", False)
    tx.run("control", "pause", queue=queue, paused=paused)
