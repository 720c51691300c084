"""What the scripts keep as nouns of the domain; include/row.lua has the same layout."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Counters, Job, LogLine, Progress
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES, rules_of
from limpet.domain.session import Session, SessionKind, SessionLock, SessionState
from limpet.domain.state import State
from limpet.domain.transition import Answer, Rejected
from limpet.storage.relocation import Parcel
from limpet.storage.texts import error_of, event_name, from_json, reason_of, to_json

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

unpacked = msgspec.msgpack.decode


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
    queue, _, task = line.decode().partition("/")
    payload_version, args, options, secrets, _ = _payload(blob)
    key, unique, parent, root, weight_class, rules = _extra(extra)
    pending, relaunch_at = shaped
    where = state_of(state)
    return Job(
        id=id_.decode(),
        task=task,
        queue=queue,
        state=where,
        priority=priority,
        round=round_,
        token=token,
        counters=Counters(failures, orphans, strikes),
        session=session.decode() or None,
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
        blocked_by=reason_of(blocked.decode() if blocked else None),
        parent=parent,
        root=root,
        key=key,
        unique=unique,
        weight_class=weight_class,
        payload_version=payload_version,
        pending=int(pending or 0),
        relaunch_at=None if relaunch_at is None else int(float(relaunch_at)),
        rules=rules_of(rules) if rules else NO_RULES,
        args=args,
        options=options,
        secrets=tuple(secrets),
        progress=_progress(progress, token),
        result=_result(where, result),
        result_secrets=tuple(unpacked(result_secrets)) if result_secrets else (),
        error=error_of(error.decode() if error else None),
    )


def parcel_of(parts: Sequence[Any]) -> Parcel:
    """A job as it is carried to another store, from the same parts."""
    id_, row, blob, extra, result, result_secrets, error, progress, blocked, *shaped = parts
    (state, _, token, _, _, claimed_at, finished_at, suspect, last_run, flags, round_, failures,
     orphans, strikes, expires_at, deadline_at, requested_at, priority, ready_at,
     created_at, _, _) = _ROW.unpack_from(row)  # fmt: skip
    length = row[_ROW.size]
    session, line = row[_ROW.size + 1 :][:length], row[_ROW.size + 1 + length :]
    queue, _, task = line.decode().partition("/")
    payload_version, args, options, secrets, _ = _payload(blob)
    *extras, rules = _extra(extra)
    pending, relaunch_at = shaped
    hidden = to_json(unpacked(result_secrets)) if result_secrets else None
    told = (
        number_of(parts), id_.decode(), task, queue, state_of(state), priority, int(ready_at),
        bool(suspect), bool(last_run), round_, token, session.decode() or None, failures, orphans,
        strikes, int(created_at), _time(claimed_at), _time(finished_at), _time(requested_at),
        _time(expires_at), _time(deadline_at), *extras,
        payload_version, args, options, to_json(secrets), _text(result), hidden, _text(error),
        _text(blocked), *(unpacked(progress) if progress else (None,) * 5),
        to_json(rules) if rules else None, int(pending or 0),
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
    return None if value is None else value.decode()


def _extra(kept: bytes | None) -> tuple[Any, ...]:
    """Key, unique, parent, root, weight class, rules; what an older version kept has no rules."""
    values = unpacked(kept) if kept else ()
    return (*values, *(None,) * (6 - len(values)))


def _payload(blob: bytes) -> tuple[Any, ...]:
    """Five values, one after the other; a list of them is the same with one byte in front."""
    return tuple(unpacked(b"\x95" + blob))


def _progress(kept: bytes | None, token: int) -> Progress | None:
    if kept is None:
        return None
    its_token, *said = unpacked(kept)
    # It belongs to the attempt that said it.
    return Progress(*said) if its_token == token else None


def _result(state: State, value: bytes | None) -> str | None:
    # A task that returns None leaves no result behind.
    if value is None:
        return "null" if state is State.SUCCEEDED else None
    return value.decode()


def session_of(id_: bytes, fields: Sequence[bytes], now_lease: int) -> Session:
    """A session from the fields of its hash."""
    kept = dict(
        zip(fields[::2], (each.decode(errors="replace") for each in fields[1::2]), strict=True)
    )
    state = SessionState(kept[b"state"])
    moment = int(kept[b"moment"])
    ended_at = kept.get(b"ended_at")
    lock = kept[b"lock"]
    return Session(
        id=id_.decode(),
        kind=SessionKind(kept[b"kind"]),
        name=kept[b"name"],
        host=kept[b"host"],
        pid=int(kept[b"pid"]),
        lease=timedelta(microseconds=int(kept[b"lease"])),
        state=state,
        moment=moment,
        overdue=state is not SessionState.DEAD and moment <= now_lease,
        seq=int(kept[b"seq"]),
        holds=int(kept[b"count"]),
        registered_at=int(kept[b"registered_at"]),
        renewed_at=int(kept[b"renewed_at"]),
        ended_at=None if ended_at is None else int(ended_at),
        cause=error_of(kept.get(b"cause")),
        boot=kept[b"boot"],
        lock=msgspec.json.decode(lock, type=SessionLock) if lock else None,
        schedules=from_json(kept.get(b"schedules", "[]"), frozenset[str]),
    )


def event_of(entry: Sequence[Any]) -> Event:
    """An event as the scripts pack it: what is not set is false."""
    at, event, session, token, cause, claimed_at, _ = entry
    return Event(
        at,
        event_name(event),
        session or None,
        None if token is False else token,
        error_of(cause or None),
        claimed_at or None,
    )


def job_event_of(entry: bytes) -> JobEvent:
    job, task, queue, event = unpacked(entry)
    return JobEvent(job, task, queue, event_of(event))


def line_of(entry: bytes) -> LogLine:
    return LogLine(*unpacked(entry))


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
