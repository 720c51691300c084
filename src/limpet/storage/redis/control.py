"""What a user does to a job: cancel, retry, repair, requeue; and to a queue: pause."""

from collections.abc import Sequence

from limpet.domain.cause import Requested
from limpet.domain.errors import InvalidOption, JobNotFound
from limpet.domain.state import State
from limpet.storage.contract.refusals import not_finished, not_quarantined, unique_held
from limpet.storage.records.texts import repaired
from limpet.storage.redis.inspect import job as find
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.settle import cause_text

_NOT_FOUND = 1
_UNIQUE_TAKEN = 3


def cancel(link: RedisLink, job: str, reason: str) -> State:
    """Cancel a job, or request it from the holder; see `ControlVerbs.cancel`."""
    code, *answer = link.call("cancel", job, cause_text(Requested(reason=reason)))
    if code == _NOT_FOUND:
        raise JobNotFound(job)
    return State(answer[0].decode())


def retry(link: RedisLink, job: str, seen_round: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    code, *answer = link.call("retry", job, seen_round)
    if code == _NOT_FOUND:
        raise JobNotFound(job)
    if code == _UNIQUE_TAKEN:
        raise unique_held(job)
    if code:
        state, round_ = answer
        raise not_finished(job, State(state.decode()), round_, seen_round)
    return int(answer[0])


def repair(
    link: RedisLink, job: str, args: str, payload_version: int, secrets: Sequence[str]
) -> State:
    """Give a quarantined job arguments that fit; see `RepairVerbs.repair`."""
    before = as_text(packed(payload_version) + packed(args))
    after = as_text(packed(tuple(secrets)) + b"\xc0")
    found = find(link, job)
    wrong = found is not None and repaired(found.options) != found.options
    code, *answer = link.call("repair", job, before, after, "{}" if wrong else False)
    if code == _NOT_FOUND:
        raise JobNotFound(job)
    state = State(answer[0].decode())
    if code:
        raise not_quarantined(job, state)
    return state


def requeue(link: RedisLink, jobs: Sequence[str], queue: str) -> int:
    """Move waiting jobs to another queue; see `RepairVerbs.requeue`."""
    if "/" in queue:
        raise InvalidOption(f"queue {queue!r}: the name of a queue has no slash.")
    return int(link.call("requeue", list(dict.fromkeys(jobs)), queue)[1])


def pause(link: RedisLink, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    link.call("pause", queue, paused)
