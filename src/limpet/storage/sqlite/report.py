"""running → running: progress and log lines of held jobs."""

from collections.abc import Sequence

from limpet.domain.job import Report
from limpet.domain.session import Standing
from limpet.domain.transition import Rejected
from limpet.storage.contract.bounds import LINE_KEPT, MOST_LINES, NOTE_KEPT
from limpet.storage.records.texts import clean
from limpet.storage.sqlite.fence import check
from limpet.storage.sqlite.session import find, standing
from limpet.storage.sqlite.transaction import Transaction


def report(tx: Transaction, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
    """Keep the reports of running attempts; see `HolderVerbs.report`."""
    row = find(tx, session)
    leases = [report.lease for report in reports]
    alive = row is not None and standing(tx, row) is not Standing.DEAD
    tried = ["report on"] * len(leases)
    held, rejected = check(tx, session, leases, tried, alive=alive, once=False)
    for place, item in held.items():
        _keep(tx, item.n, reports[place])
    return tuple(rejected)


def _keep(tx: Transaction, n: int, report: Report) -> None:
    if report.progress is not None:
        now = report.progress
        total = None if now.total is None else float(now.total)
        note = clean(now.note[:NOTE_KEPT])
        values = (n, report.lease.token, float(now.done), total, note, now.at)
        tx.many("report", "progress", [values])
    if report.lines:
        lines = report.lines[-MOST_LINES:]
        tx.many(
            "report",
            "line",
            ((n, line.at, clean(line.level), clean(line.message[:LINE_KEPT])) for line in lines),
        )
        tx.run("report", "trim", n=n, keep=MOST_LINES)
