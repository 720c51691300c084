"""How much every store takes at once, and how much it keeps."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from limpet.domain.job import LONGEST_LINE, LONGEST_MARK, LONGEST_NOTE, NewJob
from limpet.storage.contract.store import CHUNK

# The arguments of jobs that are handed in at once, in characters. So no store, and no supervisor
# that passes such jobs on for a task, gets more than four times as many bytes in one piece.
MOST_PER_BATCH = 32 * 1024 * 1024

# How much of a running job's reports is kept.
MOST_LINES = 1_000
LINE_KEPT = LONGEST_LINE + LONGEST_MARK
NOTE_KEPT = LONGEST_NOTE + LONGEST_MARK

MOST_PER_PAGE = 1_000
SESSIONS_KEPT = timedelta(days=1)


def at_most_a_chunk(items: Sequence[object]) -> None:
    """Refuse more items than one call of a verb takes."""
    if len(items) > CHUNK:
        raise ValueError(f"a verb takes at most {CHUNK} at once, not {len(items)}")


def page_size(limit: int) -> int:
    """How many items a page has, for the limit that the caller gave."""
    return max(1, min(limit, MOST_PER_PAGE))


def prefix_within(sizes: Sequence[int], most: int) -> int:
    """How many items, from the first on, fit into `most` bytes; at least one."""
    total = 0
    for place, size in enumerate(sizes):
        total += size
        if total > most:
            return max(1, place)
    return len(sizes)


def batches(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs in pieces of at most a chunk, smaller if jobs are large; at least one job each."""
    start = 0
    while start < len(jobs):
        chunk = jobs[start : start + CHUNK]
        sizes = [len(job.args) for job in chunk]
        if sum(sizes) > MOST_PER_BATCH:
            chunk = chunk[: prefix_within(sizes, MOST_PER_BATCH)]
        yield chunk
        start += len(chunk)
