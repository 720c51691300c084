"""Which new jobs are over the cap of their queue."""

from collections.abc import Callable, Container, Mapping, Sequence

from limpet.domain.errors import QueueFull
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt


def over_cap(
    jobs: Sequence[NewJob],
    caps: Mapping[str, int],
    known: Container[str],
    waiting_in: Callable[[str], int],
) -> dict[str, Receipt]:
    """The jobs for which there is no room; those that are `known` need none."""
    waiting: dict[str, int] = {}
    refused: dict[str, Receipt] = {}
    counted: set[str] = set()
    for job in jobs:
        cap = caps.get(job.queue)
        if cap is None or job.id in known or job.id in counted:
            continue
        if job.queue not in waiting:
            waiting[job.queue] = waiting_in(job.queue)
        if waiting[job.queue] >= cap:
            refused[job.id] = Receipt(job.id, "full", None, waiting[job.queue])
        else:
            waiting[job.queue] += 1
            counted.add(job.id)
    return refused


def flow_over_cap(
    asked: Mapping[str, int], caps: Mapping[str, int], waiting_in: Callable[[str], int]
) -> QueueFull | None:
    """The first queue that has no room for what a flow asks of it; None if all have."""
    for queue in sorted(asked.keys() & caps.keys()):
        waiting = waiting_in(queue)
        if waiting + asked[queue] > caps[queue]:
            return QueueFull(queue, waiting, caps[queue], asked[queue])
    return None


def are_one(jobs: Sequence[NewJob], all_or_none: bool = False) -> bool:
    """Whether one that is refused keeps all out: so they want it, or there are children among them.

    A child that is refused would leave its parent waiting, and a parent its children alone.
    """
    return all_or_none or any(job.parent is not None for job in jobs)


def none_written(
    jobs: Sequence[NewJob], known: Mapping[str, State], refused: Mapping[str, Receipt]
) -> list[Receipt]:
    """The answer to jobs that `are_one`, of which one is refused."""
    told = {id_: Receipt(id_, "already", state) for id_, state in known.items()} | dict(refused)
    return [told.get(job.id) or Receipt(job.id, "full", None) for job in jobs]
