"""(nothing) → ready or scheduled."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from limpet.domain.errors import InvalidOption, LeaseLost
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.storage.answers import Receipt
from limpet.storage.redis.link import Link, as_text, packed
from limpet.storage.redis.rows import NONE, state_of

_SHAPE = struct.Struct(">BBBIIIIdddi")
_NEW = {"r": State.READY, "s": State.SCHEDULED}
_FENCE_LOST = 4


def enqueue(
    link: Link,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None = None,
    all_or_none: bool = False,
    fence: Lease | None = None,
) -> list[Receipt]:
    """Write new jobs; see `EnqueueVerbs.enqueue`."""
    once = jobs
    ids = [job.id for job in jobs]
    if len(set(ids)) != len(ids):
        # An id that comes twice is one job, the first.
        once = list({job.id: job for job in reversed(jobs)}.values())[::-1]
        ids = [job.id for job in once]
    shapes = _Shapes()
    kinds: list[int] = []
    texts: list[str | bytes] = []
    extras: list[tuple[int, msgspec.Raw]] = []
    task, rest = None, None
    extra: tuple[str | None, ...] = _PLAIN
    kind, before, after = 0, b"", b""
    for place, job in enumerate(once, 1):
        # Most jobs of a call are like the one before, but for id and arguments.
        if job[3:] != rest or job.task != task:
            task, rest = job.task, job[3:]
            kind, before, after = shapes.find(job)
            extra = (job.key, job.unique, job.parent, job.root, job.weight_class)
        kinds.append(kind)
        texts += (job.id, before + packed(job.args) + after)
        if extra != _PLAIN:
            extras.append((place, as_text(packed(extra))))
    code, *answer = link.call(
        "enqueue",
        len(once),
        shapes.listed,
        kinds if len(shapes.listed) > 1 else False,
        caps or False,
        all_or_none,
        fence or False,
        extras,
        texts=texts,
    )
    if code == _FENCE_LOST and fence is not None:
        raise LeaseLost(*fence)
    receipts = _receipts(ids, answer[0].decode(), answer[1])
    if once is jobs:
        return receipts
    by_id = {receipt.job: receipt for receipt in receipts}
    return [by_id[job.id] for job in jobs]


_PLAIN = (None, None, None, None, None)


class _Shapes:
    """What jobs of one call have in common is sent once."""

    def __init__(self) -> None:
        self.listed: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], tuple[int, bytes, bytes]] = {}

    def find(self, job: NewJob) -> tuple[int, bytes, bytes]:
        """Its place in the list, and what stands before and after the arguments in its blob."""
        # queue, options, secrets, priority, the three times; task; payload version
        shape = (job[3:10], job.task, job.payload_version)
        known = self._known.get(shape)
        if known is None:
            self.listed.append(_shape(job))
            before = packed(job.payload_version)
            after = packed(job.options) + packed(job.secrets) + b"\xc0"
            known = self._known[shape] = (len(self.listed), before, after)
        return known


def _shape(job: NewJob) -> tuple[Any, ...]:
    if "/" in job.queue:
        raise InvalidOption(f"queue {job.queue!r}: the name of a queue has no slash.")
    ends = [at for at in (job.expires_at, job.deadline_at) if at is not None]
    limits = _or_none(job.expires_at), _or_none(job.deadline_at), NONE
    row = _SHAPE.pack(0, 0, has_hook(job.options), 1, 0, 0, 0, *limits, job.priority)
    due = job.scheduled_for if job.scheduled_for is not None else False
    line = f"{job.queue}/{job.task}"
    return as_text(row), line, job.priority, due, min(ends) if ends else False


def _or_none(at: int | None) -> int:
    return NONE if at is None else at


def has_hook(options: str) -> bool:
    """Whether the job's options ask for a last run after the last loss."""
    return "orphan_hook" in options and bool(msgspec.json.decode(options).get("orphan_hook"))


def _receipts(ids: Sequence[str], letters: str, waiting: Sequence[int]) -> list[Receipt]:
    if len(letters) == 1 and letters in _NEW:
        return Receipt.all_new(ids, _NEW[letters])
    ahead = iter(waiting)
    receipts = []
    for id_, letter in zip(ids, letters, strict=True):
        if letter == "f":
            receipts.append(Receipt(id_, "full", None, next(ahead)))
        elif letter in _NEW:
            receipts.append(Receipt(id_, "new", _NEW[letter]))
        else:
            receipts.append(Receipt(id_, "already", state_of(int(letter))))
    return receipts
