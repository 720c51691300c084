"""What a person does to a job: cancel, retry; and to a queue: pause."""

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.state import State
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.refusals import not_finished
from limpet.storage.texts import to_json


def cancel(tx: Transaction, job: str, reason: str) -> State:
    """Cancel, or ask the holder to; see `ControlVerbs.cancel`."""
    cause = to_json(Requested(reason=reason).record())
    ((state,),) = tx.call("cancel", job, cause, tx.wall)
    if state is None:
        raise JobNotFound(job)
    return State(state)


def retry(tx: Transaction, job: str, seen_round: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    ((source, round_),) = tx.call("retry", job, seen_round, tx.wall)
    if source is None:
        raise JobNotFound(job)
    if round_ != seen_round + 1:
        raise not_finished(job, State(source), round_, seen_round)
    return int(round_)


def pause(tx: Transaction, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    tx.call("pass", False)
    tx.run("control", "pause", queue=queue, paused=paused)
