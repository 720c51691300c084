"""Turns what the scripts keep into types of the domain; layout.py defines the fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from limpet.domain.job import ClaimedJob, Counters, Job
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES, rules_of
from limpet.domain.state import State
from limpet.domain.transition import Answer, Rejected
from limpet.storage.contract.relocation import Parcel
from limpet.storage.records.claimed import claimed_of
from limpet.storage.records.texts import cause_in, reason_of, to_json
from limpet.storage.records.unreadable import or_else
from limpet.storage.redis.layout import NONE, ROW, STATES, TURN, RowFields
from limpet.storage.redis.packed import (
    extra_of,
    five,
    packed_paths,
    payload_of,
    progress_of,
    unpacked,
    word,
)

_ROW = ROW.packing(*RowFields._fields)
_NUMBER = slice(ROW.offset("number"), ROW.offset("session_length"))


def state_of(digit: int) -> State:
    """The state that a row's first byte stands for."""
    return STATES[digit - 1]


def _time(value: float) -> int | None:
    return None if value == NONE else int(value)


def number_of(parts: Sequence[Any]) -> int:
    """A job's place among all that were enqueued."""
    return int.from_bytes(parts[1][_NUMBER], "big")


def _read(text: bytes) -> tuple[RowFields, str, str, str]:
    """The fields of a row, and its session, queue and task."""
    row = RowFields._make(_ROW.unpack_from(text))
    line = _ROW.size + row.session_length
    queue, _, task = word(text[line:]).partition("/")
    return row, word(text[_ROW.size : line]), queue, task


def job_of(parts: Sequence[Any]) -> Job:
    """A job from its parts, as include/job_parts.lua lists them."""
    id_, text, blob, extra, result, result_secrets, error, progress, blocked, *shaped = parts
    row, session, queue, task = _read(text)
    name = word(id_)
    faults: list[str] = []
    payload_version, args, options, secrets = payload_of(name, blob, faults)
    key, unique, parent, root, weight_class, rules = extra_of(name, extra, faults)
    pending, relaunch_at = shaped
    state = state_of(row.state)
    return Job(
        id=name,
        task=task,
        queue=queue,
        state=state,
        priority=row.priority,
        round=row.round,
        token=row.token,
        counters=Counters(row.failures, row.orphans, row.strikes),
        session=session or None,
        suspect=bool(row.suspect),
        last_run=bool(row.last_run),
        begun=bool(row.begun),
        created_at=int(row.created_at),
        ready_at=int(row.ready_at),
        claimed_at=_time(row.claimed_at),
        finished_at=_time(row.finished_at),
        expires_at=_time(row.expires_at),
        deadline_at=_time(row.deadline_at),
        cancel_requested_at=_time(row.requested_at),
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
        progress=progress_of(name, progress, row.token, faults),
        result=_result(state, result),
        result_secrets=packed_paths(name, result_secrets, faults),
        error=cause_in("job", name, error, "error", faults),
        unreadable=tuple(faults),
    )


def parcel_of(parts: Sequence[Any]) -> Parcel:
    """A job as it is carried to another store, from the same parts."""
    id_, text, blob, extra, result, result_secrets, error, progress, blocked, *shaped = parts
    row, session, queue, task = _read(text)
    name = word(id_)
    payload_version, args, options, secrets = payload_of(name, blob, [])
    key, unique, parent, root, weight_class, rules = extra_of(name, extra, [])
    pending, relaunch_at = shaped
    found = or_else("job", name, "progress", unpacked, progress, None) if progress else None
    progress_token, done, total, note, progress_at = (
        found if isinstance(found, list) and len(found) == 5 else (None,) * 5
    )
    return Parcel(
        number=number_of(parts),
        id=name,
        task=task,
        queue=queue,
        state=state_of(row.state),
        priority=row.priority,
        ready_at=int(row.ready_at),
        suspect=bool(row.suspect),
        last_run=bool(row.last_run),
        round=row.round,
        token=row.token,
        session=session or None,
        failures=row.failures,
        orphans=row.orphans,
        strikes=row.strikes,
        created_at=int(row.created_at),
        claimed_at=_time(row.claimed_at),
        finished_at=_time(row.finished_at),
        cancel_requested_at=_time(row.requested_at),
        expires_at=_time(row.expires_at),
        deadline_at=_time(row.deadline_at),
        key=key,
        unique=unique,
        parent=parent,
        root=root,
        weight_class=weight_class,
        payload_version=payload_version,
        args=args,
        options=options,
        secrets=to_json(secrets),
        result=_text(result),
        result_secrets=to_json(packed_paths(name, result_secrets, [])) if result_secrets else None,
        error=_text(error),
        blocked=_text(blocked),
        progress_token=progress_token,
        done=done,
        total=total,
        note=note,
        progress_at=progress_at,
        rules=to_json(rules) if rules else None,
        pending=or_else("job", name, "pending", int, pending or 0, 0),
        relaunch_at=None if relaunch_at is None else int(float(relaunch_at)),
        turn=bool(row.flags & TURN),
    )


def row_of(parcel: Parcel, flags: int) -> bytes:
    """The row of a job that comes from another store; it does not run."""
    session = (parcel.session or "").encode()
    row = RowFields(
        state=STATES.index(State(parcel.state)) + 1,
        begun=0,
        token=parcel.token,
        seq=0,
        pool=0,
        claimed_at=_or_none(parcel.claimed_at),
        finished_at=_or_none(parcel.finished_at),
        suspect=parcel.suspect,
        last_run=parcel.last_run,
        flags=flags,
        round=parcel.round,
        failures=parcel.failures,
        orphans=parcel.orphans,
        strikes=parcel.strikes,
        expires_at=_or_none(parcel.expires_at),
        deadline_at=_or_none(parcel.deadline_at),
        requested_at=_or_none(parcel.cancel_requested_at),
        priority=parcel.priority,
        ready_at=parcel.ready_at,
        created_at=parcel.created_at,
        number=parcel.number.to_bytes(6, "big"),
        session_length=len(session),
    )
    return _ROW.pack(*row) + session + f"{parcel.queue}/{parcel.task}".encode()


def _or_none(at: int | None) -> int:
    return NONE if at is None else at


def _text(value: bytes | None) -> str | None:
    return None if value is None else word(value)


def claimed_alone(id_: bytes, text: bytes, blob: bytes | None) -> ClaimedJob:
    """A claimed job from its row and its payload, even where the payload is nonsense."""
    row, session, queue, task = _read(text)
    payload: list[Any] = or_else("job", word(id_), "payload", five, blob or b"", [None] * 5)
    return claimed_of(
        Lease(word(id_), session, row.token),
        task,
        queue,
        row.failures + row.orphans + 1,
        row.round,
        (row.failures, row.orphans, row.strikes),
        row.suspect,
        row.last_run,
        *payload[:4],
        _time(row.deadline_at),
    )


def _result(state: State, value: bytes | None) -> str | None:
    # A task that returns None leaves no result behind.
    if value is None:
        return "null" if state is State.SUCCEEDED else None
    return word(value)


_rejected_decoder = msgspec.msgpack.Decoder(list[tuple[int, str, str, int, Answer]]).decode


def rejected_of(encoded: bytes) -> tuple[Rejected, ...]:
    """The settlements that were not applied, in the order in which they were sent."""
    if not encoded:
        return ()
    return tuple(
        Rejected(Lease(job, holder, token), answer)
        for _, job, holder, token, answer in sorted(_rejected_decoder(encoded))
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
