"""The children of a job: stages those of a fan-out, and reads how they ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.app.app import App
from limpet.app.flows import Failed, FlowLayout, as_children
from limpet.app.task import Task
from limpet.domain.child import ChildResult
from limpet.domain.errors import FanOut
from limpet.domain.job import Job
from limpet.domain.retry import leaves_of
from limpet.domain.rules import ChildFailure
from limpet.domain.state import State
from limpet.payload.json_text import from_text
from limpet.storage.contract.bounds import batches


def fan_out_of(error: BaseException) -> FanOut | None:
    """The `FanOut` that was raised, by itself or alone in a group; beside a failure, None."""
    leaves = leaves_of(error)
    return leaves[0] if len(leaves) == 1 and isinstance(leaves[0], FanOut) else None


def stage(app: App, parent: str, fan: FanOut) -> tuple[str, int, int]:
    """Stage the children, invisible until they are committed; return flow, chunks and children.

    Each call makes a new flow: what an attempt staged before it failed to settle is never
    committed.
    """
    client = app.client
    root = client.job(parent).root or parent
    failed: Failed = fan.failed
    children = as_children(fan.calls, failed)
    jobs = FlowLayout(app, children, parent=parent, root=root).jobs
    flow = client.ids.new()
    chunks = list(batches(jobs))
    for place, chunk in enumerate(chunks):
        client.store.stage(flow, place, chunk)
    return flow, len(chunks), len(children)


def read(app: App, parent: str) -> Sequence[ChildResult]:
    """How the children ended, oldest first."""
    of_parent, tasks = app.client.children_of(parent), app.tasks
    return tuple(_result(tasks, job) for job in of_parent if not _is_left_out(job))


def _is_left_out(job: Job) -> bool:
    return job.state is not State.SUCCEEDED and job.rules.child_failure is ChildFailure.SKIP


def _result(tasks: Mapping[str, Task[Any, Any]], job: Job) -> ChildResult:
    value = None
    if job.state is State.SUCCEEDED:
        text = job.result or "null"
        task = tasks.get(job.task)
        value = from_text(text) if task is None else task.signature.unpack_result(text)
    return ChildResult(job.id, job.task, job.state, value, job.error)
