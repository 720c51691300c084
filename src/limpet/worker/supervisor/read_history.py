"""Reads from the timelines of jobs what a few attempts need to know."""

from collections.abc import Iterable, Mapping

from limpet.domain.event import times_reopened, unreported_loss
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.supervisor.store_line import StoreLine
from limpet.worker.wire.catalog import TaskFacts


async def read_history(
    line: StoreLine, holds: Iterable[Hold], tasks: Mapping[str, TaskFacts]
) -> None:
    """Read the timelines of jobs that need it, and note in their holds what was found.

    A loss is noted for the orphan hook, the rounds that a user opened for the count of relaunches.
    """
    for hold in holds:
        facts = tasks.get(hold.claimed.task)
        orphaned = bool(hold.claimed.counters.orphans)
        needs_loss = orphaned and facts is not None and facts.has_hook
        needs_rounds = hold.claimed.round > 1 and _relaunches(hold, facts)
        if not needs_loss and not needs_rounds:
            continue
        events = await line.request("events", hold.lease.job)
        if needs_loss and (cause := unreported_loss(events)) is not None:
            hold.lost = cause.record()
        if needs_rounds:
            # A long timeline may have lost events. Then a job relaunches too rarely, not too often.
            hold.claimed = hold.claimed._replace(reopened=times_reopened(events))


def _relaunches(hold: Hold, facts: TaskFacts | None) -> bool:
    return "relaunch" in hold.claimed.options or (facts is not None and facts.relaunches)
