"""(nothing) → ready, scheduled or blocked."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from limpet.domain.errors import InvalidOption, LeaseLost, UnknownParent
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES, Rules
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.refusals import of_texts
from limpet.storage.contract.store import write_at_once
from limpet.storage.redis.layout import FAMILY, HOOK, KEYED, NONE, ROW, RULED, UNIQUE
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.rows import state_of

_SHAPE = ROW.packing(*ROW.between("suspect", "priority"))
_NEW = {"r": State.READY, "s": State.SCHEDULED, "b": State.BLOCKED, "c": State.CANCELLED}
FENCE_LOST, _NO_PARENT = 4, 5


@of_texts
def enqueue(
    link: RedisLink,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None = None,
    all_or_none: bool = False,
    fence: Lease | None = None,
    before_write: Callable[[], None] = write_at_once,
) -> list[Receipt]:
    """Write new jobs; see `EnqueueVerbs.enqueue`."""
    once = jobs
    ids = [job.id for job in jobs]
    if len(set(ids)) != len(ids):
        # Where an id comes twice, the first of the two jobs counts.
        once = list({job.id: job for job in reversed(jobs)}.values())[::-1]
        ids = [job.id for job in once]
    batch = batch_of(once)
    before_write()
    code, *answer = link.call(
        "enqueue",
        batch.number,
        batch.shapes,
        batch.kinds,
        caps or False,
        all_or_none,
        fence or False,
        batch.extras,
        texts=batch.texts,
    )
    if code == FENCE_LOST and fence is not None:
        raise LeaseLost(*fence)
    if code == _NO_PARENT:
        raise UnknownParent(*(name.decode() for name in answer))
    receipts = receipts_of(ids, answer[0].decode(), answer[1], answer[2])
    if once is jobs:
        return receipts
    by_id = dict(zip(ids, receipts, strict=True))
    return [by_id[job.id] for job in jobs]


class Batch(NamedTuple):
    """New jobs as the scripts read them; see include/arrive.lua."""

    number: int
    shapes: list[tuple[Any, ...]]
    kinds: list[int] | bool
    extras: list[tuple[int, int, msgspec.Raw]]
    texts: list[str | bytes]


def batch_of(jobs: Sequence[NewJob]) -> Batch:
    """Encode jobs whose ids differ."""
    shapes = _Shapes()
    kinds: list[int] = []
    texts: list[str | bytes] = []
    extras: list[tuple[int, int, msgspec.Raw]] = []
    task, rest, version = None, None, 0
    alike: tuple[Any, ...] = ()
    plain, flags, extra = True, 0, msgspec.Raw()
    kind, before, after = 0, b"", b""
    for place, job in enumerate(jobs, 1):
        # Most jobs of a call differ from the one before in id, arguments and perhaps a key only.
        if job[3:] != rest or job.task != task:
            if job[3:10] != alike or job.task != task or job.payload_version != version:
                alike, version = job[3:10], job.payload_version
                kind, before, after = shapes.find(job)
            task, rest = job.task, job[3:]
            plain = job[10:15] == _PLAIN and job.rules is None
            if not plain:
                flags, extra = _beside(job)
        kinds.append(kind)
        texts += (job.id, before + packed(job.args) + after)
        if not plain:
            extras.append((place, flags, extra))
    many = len(shapes.listed) > 1
    return Batch(len(jobs), shapes.listed, kinds if many else False, extras, texts)


_PLAIN = (None, None, None, None, None)


def _beside(job: NewJob) -> tuple[int, msgspec.Raw]:
    """The flags and the extra of a job that is not plain."""
    key, unique, parent, *_ = job[10:15]
    if job.rules is None and unique is None and parent is None and key is not None:
        return KEYED, as_text(packed((*job[10:15], None)))
    record = (job.rules or NO_RULES).record() or None
    return flags_of(key, unique, parent, job.rules), as_text(packed((*job[10:15], record)))


def flags_of(key: str | None, unique: str | None, parent: str | None, rules: Rules | None) -> int:
    """The flags of a job's row, except for its hook; layout.py names them."""
    rules = rules or NO_RULES
    flags = UNIQUE if unique is not None else 0
    if parent is not None or rules.children:
        flags |= FAMILY
    if key is not None:
        flags |= KEYED | (RULED if rules[:3] != NO_RULES[:3] else 0)
    return flags


class _Shapes:
    """What jobs of one call have in common, to be sent once."""

    def __init__(self) -> None:
        self.listed: list[tuple[Any, ...]] = []
        self._places: dict[tuple[Any, ...], int] = {}

    def find(self, job: NewJob) -> tuple[int, bytes, bytes]:
        """The place of a job's shape in the list, and its blob before and after the arguments."""
        # task; queue, options, secrets, priority, the three times; payload version
        alike = job.task, job[3:10], job.payload_version
        shape, before, after = _shape(*alike)
        place = self._places.get(alike)
        if place is None:
            self.listed.append(shape)
            place = self._places[alike] = len(self.listed)
        return place, before, after


# A program has few kinds of jobs, and enqueues the same kinds again and again.
@lru_cache(256)
def _shape(
    task: str, options_and_times: tuple[Any, ...], version: int
) -> tuple[tuple[Any, ...], bytes, bytes]:
    queue, options, secrets, priority, scheduled_for, expires_at, deadline_at = options_and_times
    if "/" in queue:
        raise InvalidOption(f"queue {queue!r}: the name of a queue has no slash.")
    ends = [at for at in (expires_at, deadline_at) if at is not None]
    limits = _or_none(expires_at), _or_none(deadline_at), NONE
    flags = HOOK if has_hook(options) else 0
    row = _SHAPE.pack(0, 0, flags, 1, 0, 0, 0, *limits, priority)
    due = scheduled_for if scheduled_for is not None else False
    shape = as_text(row), f"{queue}/{task}", priority, due, min(ends) if ends else False
    return shape, packed(version), packed(options) + packed(secrets) + b"\xc0"


def _or_none(at: int | None) -> int:
    return NONE if at is None else at


def has_hook(options: str) -> bool:
    """Whether the job's options request a last run after the last loss."""
    return "orphan_hook" in options and bool(msgspec.json.decode(options).get("orphan_hook"))


def receipts_of(
    ids: Sequence[str], letters: str, waiting: Sequence[int], others: Sequence[Any]
) -> list[Receipt]:
    """Receipts from the letters and lists that the scripts return; see include/arrive.lua."""
    if len(letters) == 1 and letters in _NEW:
        return Receipt.all_new(ids, _NEW[letters])
    ahead, holders = iter(waiting), iter(others)
    receipts = []
    for id_, letter in zip(ids, letters, strict=True):
        if letter == "f":
            receipts.append(Receipt(id_, "full", None, next(ahead)))
        elif letter == "u":
            holder, state = next(holders)
            receipts.append(
                Receipt(holder.decode(), "duplicate", state_of(state) if state else None)
            )
        elif letter == "d":
            receipts.append(Receipt(id_, "draining", None))
        elif letter in _NEW:
            receipts.append(Receipt(id_, "new", _NEW[letter]))
        else:
            receipts.append(Receipt(id_, "already", state_of(int(letter))))
    return receipts
