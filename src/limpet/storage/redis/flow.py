"""Jobs that come into being together: stage, commit; and the children of a job."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from limpet.domain.errors import FlowIncomplete, LeaseLost, QueueFull
from limpet.domain.job import JobList, NewJob
from limpet.domain.lease import Lease
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.refusals import cursor_not_given, of_texts
from limpet.storage.redis.enqueue import FENCE_LOST, batch_of
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.rows import job_of, number_of

_INCOMPLETE, _FULL = 1, 2


@of_texts
def stage(link: RedisLink, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
    """Keep jobs aside; see `FlowVerbs.stage`."""
    once = list({job.id: job for job in reversed(jobs)}.values())[::-1]
    batch = batch_of(once)
    texts = [_raw(text) for text in batch.texts]
    part = (batch.number, batch.shapes, batch.kinds, batch.extras, texts)
    queues = packed(Counter(job.queue for job in once))
    link.call("stage", flow, place, as_text(packed(part)), as_text(queues))


def _raw(text: str | bytes) -> msgspec.Raw:
    return as_text(text if isinstance(text, bytes) else text.encode())


def commit(
    link: RedisLink, flow: str, chunks: int, fence: Lease | None, caps: Mapping[str, int] | None
) -> bool:
    """Let the staged jobs come into being; see `FlowVerbs.commit`."""
    code, *answer = link.call("commit", flow, chunks, fence or False, caps or False)
    if code == FENCE_LOST and fence is not None:
        raise LeaseLost(*fence)
    if code == _INCOMPLETE:
        raise FlowIncomplete(flow)
    if code == _FULL and caps:
        queue, waiting, added = answer[0].decode(), *answer[1:]
        raise QueueFull(queue, waiting, caps[queue], added)
    return bool(answer[0])


def children(link: RedisLink, job: str, cursor: str | None, limit: int) -> JobList:
    """A page of a job's children, oldest first."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise cursor_not_given(cursor)
    after: int | bool = int(cursor) if cursor is not None else False
    found = link.call("children", job, after, size + 1)[1]
    more = len(found) > size
    found = found[:size]
    return JobList(tuple(map(job_of, found)), str(number_of(found[-1])) if more else None)
