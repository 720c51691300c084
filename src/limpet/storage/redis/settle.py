"""Encodes settlements for the scripts: plain successes in columns, all others one by one."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, assert_never

from limpet.domain.cause import Cause, Raised
from limpet.domain.errors import FlowIncomplete
from limpet.domain.transition import (
    MOVE_OF,
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.records.texts import to_json
from limpet.storage.redis.link import as_text, packed

_MOST = 2**53


class SettledBatch(NamedTuple):
    """What an exchange sends of its settlements; places count from 1."""

    number: int
    places: list[int] | None
    texts: list[str | bytes]
    others: list[tuple[Any, ...]]


def encode_settlements(session: str, settlements: Sequence[Settlement]) -> SettledBatch:
    """Settlements as an exchange sends them."""
    if not settlements:
        return SettledBatch(0, None, [], [])
    done = [settlement for settlement in settlements if type(settlement) is Complete]
    ids = [complete.lease.job for complete in done]
    if not done or not _plain(session, settlements, done, ids):
        others = [_one(place, settlement) for place, settlement in enumerate(settlements, 1)]
        return SettledBatch(0, None, [], others)
    tokens = [complete.lease.token for complete in done]
    if len(set(tokens)) == 1:
        del tokens[1:]
    texts: list[str | bytes] = [*ids, struct.pack(f">{len(tokens)}Q", *tokens)]
    for complete in done:
        if complete.result != "null":
            texts += (complete.lease.job, complete.result)
    if len(done) == len(settlements):
        return SettledBatch(len(done), None, texts, [])
    places = [place for place, other in enumerate(settlements, 1) if type(other) is Complete]
    others = [
        _one(place, other)
        for place, other in enumerate(settlements, 1)
        if type(other) is not Complete
    ]
    return SettledBatch(len(done), places, texts, others)


def _plain(
    session: str, settlements: Sequence[Settlement], done: Sequence[Complete], ids: Sequence[str]
) -> bool:
    """Whether each job has one settlement, and each success is the caller's own and has nothing but
    its result.
    """
    jobs = set(ids)
    if len(jobs) != len(ids):
        return False
    for _, _, secrets, counts in done:
        if secrets or counts:
            return False
    for (_, holder, token), _, _, _ in done:
        if holder != session or not 0 <= token < _MOST:
            return False
    if len(done) == len(settlements):
        return True
    return not any(
        type(settlement) is not Complete and settlement.lease.job in jobs
        for settlement in settlements
    )


def _one(place: int, settlement: Settlement) -> tuple[Any, ...]:
    job, holder, token = settlement.lease
    head = (place, MOVE_OF[type(settlement)], job, token, holder)
    match settlement:
        case Complete(result=result, secrets=secrets, counts=counts):
            return (
                *head,
                result if result != "null" else False,
                as_text(packed(secrets)) if secrets else False,
                counts or False,
            )
        case RetryAt(at=at, error=error):
            return (*head, at, cause_text(error))
        case SnoozeUntil(at=at, holds=holds):
            return (*head, at, False, holds)
        case Fail(error=error, relaunch_at=relaunch_at):
            return (*head, cause_text(error), relaunch_at if relaunch_at is not None else False)
        case AwaitChildren(flow=flow, chunks=chunks, children=children):
            return (*head, flow, chunks, children, _incomplete(flow))
        case Quarantine(error=error):
            return (*head, cause_text(error))
        case Release(cause=cause):
            return (*head, cause_text(cause))
        case Cancel():
            return head
        case Orphan(cause=cause, begun=begun, alone=alone):
            return (*head, cause_text(cause), cause.charged, begun, alone)
        case _:
            assert_never(settlement)


def _incomplete(flow: str) -> str:
    """The cause of the failure of a job whose flow is not wholly staged."""
    error = FlowIncomplete(flow)
    return cause_text(Raised(type(error).__name__, str(error)))


def cause_text(cause: Cause) -> str:
    """A cause as the store keeps it."""
    return to_json(cause.record())
