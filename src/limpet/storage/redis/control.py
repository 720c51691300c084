"""What a person does to a job: cancel, retry; and to a queue: pause."""

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.state import State
from limpet.storage.redis.link import Link
from limpet.storage.redis.settle import cause_text
from limpet.storage.refusals import not_finished

_NOT_FOUND = 1


def cancel(link: Link, job: str, reason: str) -> State:
    """Cancel, or ask the holder to; see `ControlVerbs.cancel`."""
    code, *answer = link.call("cancel", job, cause_text(Requested(reason=reason)))
    if code == _NOT_FOUND:
        raise JobNotFound(job)
    return State(answer[0].decode())


def retry(link: Link, job: str, seen_round: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    code, *answer = link.call("retry", job, seen_round)
    if code == _NOT_FOUND:
        raise JobNotFound(job)
    if code:
        state, round_ = answer
        raise not_finished(job, State(state.decode()), round_, seen_round)
    return int(answer[0])


def pause(link: Link, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    link.call("pause", queue, paused)
