"""The columns of a new job's rows."""

from limpet.domain.job import NewJob
from limpet.domain.queue import sort_key
from limpet.storage.records.texts import strict_json
from limpet.storage.sqlite.transaction import Transaction, Value


def job_row(tx: Transaction, n: int, job: NewJob) -> tuple[Value, ...]:
    """The row of a job, as `enqueue.insert_job` takes it."""
    due = job.scheduled_for
    later = due is not None and due > tx.now
    ready_at = due if due is not None and later else tx.now
    ends = [at for at in (job.expires_at, job.deadline_at) if at is not None]
    return (
        n,
        job.id,
        job.task,
        job.queue,
        "scheduled" if later else "ready",
        job.priority,
        sort_key(ready_at, job.priority),
        ready_at,
        tx.now,
        job.expires_at,
        job.deadline_at,
        min(ends, default=None),
        job.key,
        job.unique,
        job.parent,
        job.root,
        job.weight_class,
        job.payload_version,
    )


def payload_row(n: Value, job: NewJob) -> tuple[Value, ...]:
    """The row of its payload, as `enqueue.insert_payload` takes it."""
    return n, job.args, job.options, strict_json(job.secrets) if job.secrets else "[]"
