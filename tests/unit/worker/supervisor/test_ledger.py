"""What a worker remembers while it cannot tell it is bounded."""

from limpet.domain.job import ClaimedJob, Counters, LogLine, Progress, Report
from limpet.domain.lease import Lease
from limpet.storage.contract.bounds import MOST_LINES
from limpet.worker.supervisor.ledger import Ledger

LEASE = Lease("1" * 26, "s", 1)


def claimed(lease: Lease) -> ClaimedJob:
    return ClaimedJob(
        lease, "task", "queue", 1, 1, Counters(0, 0, 0), False, False, 1, "{}", "{}", (), None
    )


def said(number: int) -> Report:
    progress = Progress(number, 10_000, "", at=number) if number % 2 else None
    return Report(LEASE, progress, (LogLine(number, "info", f"line {number}"),))


def test_what_jobs_report_during_an_outage_is_kept_as_far_as_a_store_would_keep_it() -> None:
    ledger = Ledger()
    ledger.take([claimed(LEASE)])
    for number in range(5 * MOST_LINES):
        ledger.report(said(number))
    (kept,) = ledger.next_reports()
    assert len(kept.lines) == MOST_LINES
    assert kept.lines[-1] == said(5 * MOST_LINES - 1).lines[0]
    assert kept.progress is not None
    assert kept.progress.done == 5 * MOST_LINES - 1
    assert not ledger.reports


def test_what_is_said_after_the_outcome_was_told_is_not_told() -> None:
    ledger = Ledger()
    ledger.report(said(1))
    assert ledger.next_reports() == []


def test_what_the_store_could_not_note_as_begun_is_said_again() -> None:
    ledger = Ledger()
    ledger.take([claimed(LEASE)])
    ledger.holds[LEASE.job].begun = True
    assert ledger.next_begun() == [LEASE]
    assert ledger.next_begun() == []
    ledger.repeat_begun([LEASE._replace(token=2), LEASE._replace(job="2" * 26)])
    assert not ledger.has_next_begun
    ledger.repeat_begun([LEASE])
    assert ledger.next_begun() == [LEASE]
