"""The tasks of these tests, by topic."""

from worker.tasks import (
    attacks,
    cancelling,
    crowds,
    flows,
    inside,
    leaving,
    limits,
    looping,
    orphans,
    queues,
    reports,
    results,
    retries,
    shaping,
    surroundings,
)

__all__ = [
    "attacks",
    "cancelling",
    "crowds",
    "flows",
    "inside",
    "leaving",
    "limits",
    "looping",
    "orphans",
    "queues",
    "reports",
    "results",
    "retries",
    "shaping",
    "surroundings",
]
