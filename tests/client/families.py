"""What tests of flows have in common."""

from client.hand import Hand

from limpet import App, Task
from limpet.domain.transition import Complete

Work = Task[[int], int]


def run_all(hand: Hand) -> list[str]:
    """Complete whatever can be claimed, until there is nothing; the answer is the order."""
    order: list[str] = []
    settlements: list[Complete] = []
    while True:
        claimed = hand.exchange(*settlements, room=1000).claimed
        if not claimed:
            return order
        order += [job.lease.job for job in claimed]
        settlements = [Complete(job.lease, job.args[len('{"n":') : -1]) for job in claimed]


def jobs_there(app: App) -> int:
    views = app.client.store.queues()
    return sum(sum(view.counts.values()) for view in views)
