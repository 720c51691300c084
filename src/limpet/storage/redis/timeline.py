"""Sessions, events and lines of a job's log, from what the scripts return."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from limpet.domain.event import Event, JobEvent
from limpet.domain.job import LogLine
from limpet.domain.session import DEFAULT_LEASE, Session, SessionKind, SessionState
from limpet.storage.records.texts import cause_in, event_name
from limpet.storage.records.unreadable import field, or_else
from limpet.storage.redis.packed import unpacked, word
from limpet.storage.sql.rows import lease_of, lock_in, schedules_in


def session_of(id_: bytes, fields: Sequence[bytes], now_lease: int) -> Session:
    """A session from the fields of its hash; a field that cannot be read has its default and is
    listed as unreadable.
    """
    name = word(id_)
    kept = dict(zip(fields[::2], map(word, fields[1::2]), strict=True))

    faults: list[str] = []

    def number(field: str, otherwise: int = 0) -> int:
        text = kept.get(field.encode())
        return or_else("session", name, field, _number, text, otherwise, faults)

    state_, kind = kept.get(b"state", ""), kept.get(b"kind", "")
    state = or_else("session", name, "state", SessionState, state_, SessionState.LIVE, faults)
    moment = number("moment")
    return Session(
        id=name,
        kind=or_else("session", name, "kind", SessionKind, kind, SessionKind.WORKER, faults),
        name=kept.get(b"name", ""),
        host=kept.get(b"host", ""),
        pid=number("pid"),
        lease=or_else(
            "session", name, "lease", lease_of, kept.get(b"lease", ""), DEFAULT_LEASE, faults
        ),
        state=state,
        moment=moment,
        overdue=state is not SessionState.DEAD and moment <= now_lease,
        seq=number("seq"),
        holds=number("count"),
        registered_at=number("registered_at"),
        renewed_at=number("renewed_at"),
        ended_at=number("ended_at") if b"ended_at" in kept else None,
        cause=cause_in("session", name, kept.get(b"cause"), "cause", faults),
        boot=kept.get(b"boot", ""),
        lock=lock_in(name, kept.get(b"lock"), faults),
        schedules=schedules_in(name, kept.get(b"schedules", "[]"), faults),
        unreadable=tuple(faults),
    )


def _number(text: str | None) -> int:
    if text is None:
        raise ValueError("there is none")
    return int(text)


def event_of(job: str, entry: bytes) -> Event:
    """An event as the scripts pack it."""
    return field("job", job, "timeline", lambda text: _event(job, unpacked(text)), entry)


def _event(job: str, entry: Any) -> Event:
    # A field that is not set is false.
    at, event, session, token, cause, claimed_at = msgspec.convert(entry[:6], _Event)
    return Event(
        int(at),
        event_name(event),
        session or None,
        None if token is False else token,
        cause_in("job", job, cause or None, f"{event} event"),
        claimed_at or None,
    )


_Event = tuple[
    int | float,
    str,
    str | Literal[False] | None,
    int | Literal[False] | None,
    str | Literal[False] | None,
    int | Literal[False] | None,
]


def job_event_of(entry: bytes) -> JobEvent:
    """An entry of the latest events."""
    return field("list", "latest", "event", _job_event, entry)


def _job_event(entry: bytes) -> JobEvent:
    job, task, queue, event = msgspec.msgpack.decode(entry, type=tuple[str, str, str, list[Any]])
    return JobEvent(job, task, queue, _event(job, event))


def line_of(job: str, entry: bytes) -> LogLine:
    """A line of a job's log."""
    return field("job", job, "log", lambda text: LogLine(*_line_decoder(text)), entry)


_line_decoder = msgspec.msgpack.Decoder(tuple[int, str, str]).decode
