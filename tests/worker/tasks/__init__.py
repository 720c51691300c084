"""The tasks of these tests, by topic."""

from worker.tasks import (
    attacks,
    cancelling,
    crowds,
    inside,
    leaving,
    limits,
    looping,
    orphans,
    queues,
    reports,
    results,
    retries,
)

__all__ = [
    "attacks",
    "cancelling",
    "crowds",
    "inside",
    "leaving",
    "limits",
    "looping",
    "orphans",
    "queues",
    "reports",
    "results",
    "retries",
]
