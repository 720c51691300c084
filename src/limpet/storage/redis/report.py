"""running → running: progress and log lines of held jobs."""

from collections.abc import Sequence
from typing import Any

import msgspec

from limpet.domain.job import Report
from limpet.domain.transition import Rejected
from limpet.storage.contract.bounds import LINE_KEPT, MOST_LINES, NOTE_KEPT
from limpet.storage.records.texts import clean
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.rows import rejected_of


def report(link: RedisLink, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
    """Keep what running attempts report; see `HolderVerbs.report`."""
    encoded = [_encode(report_) for report_ in reports]
    answer = link.call("report", session, MOST_LINES, encoded)[1]
    return rejected_of(answer)


def _encode(report_: Report) -> tuple[Any, ...]:
    job, holder, token = report_.lease
    progress: msgspec.Raw | bool = False
    if report_.progress is not None:
        now = report_.progress
        total = None if now.total is None else float(now.total)
        values = (token, float(now.done), total, clean(now.note[:NOTE_KEPT]), now.at)
        progress = as_text(packed(values))
    lines = [
        as_text(packed((line.at, clean(line.level), clean(line.message[:LINE_KEPT]))))
        for line in report_.lines[-MOST_LINES:]
    ]
    return job, token, holder, progress, lines
