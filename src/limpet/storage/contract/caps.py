"""The caps of queues: which new jobs are refused, and what that means for the jobs beside them."""

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
    """The receipts of jobs that are over the cap of their queue; `known` jobs take no place."""
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
    requested: Mapping[str, int], caps: Mapping[str, int], waiting_in: Callable[[str], int]
) -> QueueFull | None:
    """The refusal by the first queue that cannot take the flow's jobs; None if all queues can."""
    for queue in sorted(requested.keys() & caps.keys()):
        waiting = waiting_in(queue)
        if waiting + requested[queue] > caps[queue]:
            return QueueFull(queue, waiting, caps[queue], requested[queue])
    return None


def are_one(jobs: Sequence[NewJob], all_or_none: bool = False) -> bool:
    """Whether one refused job keeps all out: by the caller's wish, or because a job has a parent.

    Without a refused child its parent would wait for ever; a refused parent would leave orphaned
    children.
    """
    return all_or_none or any(job.parent is not None for job in jobs)


def none_written(
    jobs: Sequence[NewJob], known: Mapping[str, State], refused: Mapping[str, Receipt]
) -> list[Receipt]:
    """The receipts of jobs that `are_one`, after one of them was refused."""
    answers = {id_: Receipt(id_, "already", state) for id_, state in known.items()} | dict(refused)
    return [answers.get(job.id) or Receipt(job.id, "full", None) for job in jobs]
