"""running → running: progress and log lines of held jobs."""

from collections.abc import Sequence

from limpet.domain.job import Report
from limpet.domain.session import Standing
from limpet.domain.transition import Rejected
from limpet.storage.contract.bounds import LINE_KEPT, MOST_LINES, NOTE_KEPT
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import clean, to_json


def report(tx: Transaction, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
    """Keep the progress and log lines of running attempts; see `HolderVerbs.report`."""
    ((_, standing),) = tx.call("open", session, tx.lease)
    alive = standing is not None and standing != Standing.DEAD
    leases = [entry.lease for entry in reports]
    tried = ["report on"] * len(leases)
    held, rejected = check(tx, session, leases, tried, alive=alive, once=False)
    accepted = [reports[place] for place in held]
    progress = [_progress(entry) for entry in accepted if entry.progress is not None]
    if progress:
        tx.run("report", "progress", rows=to_json(progress))
    lines = [line for entry in accepted for line in _lines(entry)]
    if lines:
        tx.run("report", "lines", rows=to_json(lines))
        for job in {line[0] for line in lines}:
            tx.run("report", "trim", id=job, keep=MOST_LINES)
    return tuple(rejected)


def _progress(entry: Report) -> tuple[object, ...]:
    now = entry.progress
    assert now is not None
    total = None if now.total is None else float(now.total)
    note = kept(now.note[:NOTE_KEPT])
    return entry.lease.job, entry.lease.token, float(now.done), total, note, now.at


def _lines(entry: Report) -> list[tuple[str, int, str, str]]:
    return [
        (entry.lease.job, line.at, kept(line.level), kept(line.message[:LINE_KEPT]))
        for line in entry.lines[-MOST_LINES:]
    ]


def kept(text: str) -> str:
    """A text that a person wrote, as it can be stored."""
    # PostgreSQL cannot store a text with a zero character.
    return clean(text).replace("\x00", "?")
