"""What the scripts keep as nouns of the domain; include/row.lua has the same layout."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from limpet.domain.job import ClaimedJob, Counters, Job
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES, rules_of
from limpet.domain.state import State
from limpet.domain.transition import Answer, Rejected
from limpet.storage.claimed import claimed_of
from limpet.storage.redis.packed import (
    extra_of,
    five,
    packed_paths,
    payload_of,
    progress_of,
    unpacked,
    word,
)
from limpet.storage.relocation import Parcel
from limpet.storage.texts import cause_in, reason_of, to_json
from limpet.storage.unreadable import or_else

NONE = -1
# Flags of a row, as include/row.lua has them.
HOOK, FAMILY, KEYED, TURN, RULED, UNIQUE = 1, 2, 4, 8, 16, 64
_ROW = struct.Struct(">BBQIBddBBBIIIIdddiddHI")
_CODES = (
    State.SCHEDULED,
    State.READY,
    State.BLOCKED,
    State.RUNNING,
    State.QUARANTINED,
    State.SUCCEEDED,
    State.FAILED,
    State.CANCELLED,
)


def state_of(digit: int) -> State:
    """The state that a row's first byte stands for."""
    return _CODES[digit - 1]


def _time(value: float) -> int | None:
    return None if value == NONE else int(value)


def number_of(parts: Sequence[Any]) -> int:
    """A job's place among all that were enqueued."""
    high, low = _ROW.unpack_from(parts[1])[-2:]
    return int(high << 32 | low)


def job_of(parts: Sequence[Any]) -> Job:
    """A job from its parts, as include/told_jobs.lua lists them."""
    id_, row, blob, extra, result, result_secrets, error, progress, blocked, *shaped = parts
    (state, begun, token, _, _, claimed_at, finished_at, suspect, last_run, _, round_, failures,
     orphans, strikes, expires_at, deadline_at, requested_at, priority, ready_at,
     created_at, _, _) = _ROW.unpack_from(row)  # fmt: skip
    length = row[_ROW.size]
    session, line = row[_ROW.size + 1 :][:length], row[_ROW.size + 1 + length :]
    queue, _, task = word(line).partition("/")
    name = word(id_)
    faults: list[str] = []
    payload_version, args, options, secrets = payload_of(name, blob, faults)
    key, unique, parent, root, weight_class, rules = extra_of(name, extra, faults)
    pending, relaunch_at = shaped
    where = state_of(state)
    return Job(
        id=name,
        task=task,
        queue=queue,
        state=where,
        priority=priority,
        round=round_,
        token=token,
        counters=Counters(failures, orphans, strikes),
        session=word(session) or None,
        suspect=bool(suspect),
        last_run=bool(last_run),
        begun=bool(begun),
        created_at=int(created_at),
        ready_at=int(ready_at),
        claimed_at=_time(claimed_at),
        finished_at=_time(finished_at),
        expires_at=_time(expires_at),
        deadline_at=_time(deadline_at),
        cancel_requested_at=_time(requested_at),
        blocked_by=reason_of(word(blocked) if blocked else None),
        parent=parent,
        root=root,
        key=key,
        unique=unique,
        weight_class=weight_class,
        payload_version=payload_version,
        pending=or_else("job", name, "pending", int, pending or 0, 0, faults),
        relaunch_at=None if relaunch_at is None else int(float(relaunch_at)),
        rules=or_else("job", name, "rules", rules_of, rules, NO_RULES, faults)
        if rules
        else NO_RULES,
        args=args,
        options=options,
        secrets=secrets,
        progress=progress_of(name, progress, token, faults),
        result=_result(where, result),
        result_secrets=packed_paths(name, result_secrets, faults),
        error=cause_in("job", name, error, "error", faults),
        unreadable=tuple(faults),
    )


def parcel_of(parts: Sequence[Any]) -> Parcel:
    """A job as it is carried to another store, from the same parts."""
    id_, row, blob, extra, result, result_secrets, error, progress, blocked, *shaped = parts
    (state, _, token, _, _, claimed_at, finished_at, suspect, last_run, flags, round_, failures,
     orphans, strikes, expires_at, deadline_at, requested_at, priority, ready_at,
     created_at, _, _) = _ROW.unpack_from(row)  # fmt: skip
    length = row[_ROW.size]
    session, line = row[_ROW.size + 1 :][:length], row[_ROW.size + 1 + length :]
    queue, _, task = word(line).partition("/")
    name = word(id_)
    payload_version, args, options, secrets = payload_of(name, blob, [])
    *extras, rules = extra_of(name, extra, [])
    pending, relaunch_at = shaped
    hidden = to_json(packed_paths(name, result_secrets, [])) if result_secrets else None
    said = or_else("job", name, "progress", unpacked, progress, None) if progress else None
    told = (
        number_of(parts), name, task, queue, state_of(state), priority, int(ready_at),
        bool(suspect), bool(last_run), round_, token, word(session) or None, failures, orphans,
        strikes, int(created_at), _time(claimed_at), _time(finished_at), _time(requested_at),
        _time(expires_at), _time(deadline_at), *extras,
        payload_version, args, options, to_json(secrets), _text(result), hidden, _text(error),
        _text(blocked), *(said if isinstance(said, list) and len(said) == 5 else (None,) * 5),
        to_json(rules) if rules else None, or_else("job", name, "pending", int, pending or 0, 0),
        None if relaunch_at is None else int(float(relaunch_at)), bool(flags & TURN),
    )  # fmt: skip
    return Parcel._make(told)


def row_of(each: Parcel, flags: int) -> bytes:
    """The row of a job that comes from another store; it does not run."""
    session = (each.session or "").encode()
    head = _ROW.pack(
        _CODES.index(State(each.state)) + 1, 0, each.token, 0, 0, _or_none(each.claimed_at),
        _or_none(each.finished_at), each.suspect, each.last_run, flags, each.round,
        each.failures, each.orphans, each.strikes, _or_none(each.expires_at),
        _or_none(each.deadline_at), _or_none(each.cancel_requested_at), each.priority,
        each.ready_at, each.created_at, each.number >> 32, each.number & 0xFFFF_FFFF,
    )  # fmt: skip
    return head + bytes([len(session)]) + session + f"{each.queue}/{each.task}".encode()


def _or_none(at: int | None) -> int:
    return NONE if at is None else at


def _text(value: bytes | None) -> str | None:
    return None if value is None else word(value)


def claimed_alone(id_: bytes, row: bytes, blob: bytes | None) -> ClaimedJob:
    """A job that was claimed, from its row and its payload, whatever that holds."""
    (_, _, token, _, _, _, _, suspect, last_run, _, round_, failures, orphans, strikes, _,
     deadline_at, *_) = _ROW.unpack_from(row)  # fmt: skip
    length = row[_ROW.size]
    session, line = row[_ROW.size + 1 :][:length], row[_ROW.size + 1 + length :]
    queue, _, task = word(line).partition("/")
    payload: list[Any] = or_else("job", word(id_), "payload", five, blob or b"", [None] * 5)
    return claimed_of(
        Lease(word(id_), word(session), token),
        task,
        queue,
        failures + orphans + 1,
        round_,
        (failures, orphans, strikes),
        suspect,
        last_run,
        *payload[:4],
        _time(deadline_at),
    )


def _result(state: State, value: bytes | None) -> str | None:
    # A task that returns None leaves no result behind.
    if value is None:
        return "null" if state is State.SUCCEEDED else None
    return word(value)


_verdicts = msgspec.msgpack.Decoder(list[tuple[int, str, str, int, Answer]]).decode


def rejected_of(told: bytes) -> tuple[Rejected, ...]:
    """The settlements that were not applied, in the order in which they were said."""
    if not told:
        return ()
    return tuple(
        Rejected(Lease(job, holder, token), answer)
        for _, job, holder, token, answer in sorted(_verdicts(told))
    )


def pairs_of(flat: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and values, one after the other."""
    names = (name.decode() for name in flat[::2])
    return zip(names, flat[1::2], strict=True)


def counts_of(pairs: Sequence[bytes]) -> Mapping[tuple[str, str], int]:
    """Counts kept under `queue/what`."""
    found = {}
    for name, count in zip(pairs[::2], pairs[1::2], strict=True):
        queue, _, what = name.decode().partition("/")
        found[queue, what] = int(count)
    return found
