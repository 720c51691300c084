"""What an attempt must know of the timeline of its job, which only few need."""

from collections.abc import Iterable, Mapping

from limpet.domain.event import times_reopened, unheard_loss
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.supervisor.store_line import StoreLine
from limpet.worker.wire.catalog import TaskFacts


async def read_history(
    line: StoreLine, holds: Iterable[Hold], tasks: Mapping[str, TaskFacts]
) -> None:
    """Tell the loss of which a hook is to hear, and which rounds are no relaunches of the job."""
    for hold in holds:
        facts = tasks.get(hold.claimed.task)
        hears = bool(hold.claimed.counters.orphans) and facts is not None and facts.has_hook
        counts = hold.claimed.round > 1 and _relaunches(hold, facts)
        if not hears and not counts:
            continue
        events = await line.ask("events", hold.lease.job)
        if hears and (cause := unheard_loss(events)) is not None:
            hold.lost = cause.record()
        if counts:
            # A long timeline has lost some of it; then a relaunch is missed, and none is too many.
            hold.claimed = hold.claimed._replace(reopened=times_reopened(events))


def _relaunches(hold: Hold, facts: TaskFacts | None) -> bool:
    return "relaunch" in hold.claimed.options or (facts is not None and facts.relaunches)
