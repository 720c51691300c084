"""Parents and children, as the tests of flows make them."""

from collections.abc import Sequence
from typing import Any

from contract.driver import new_job

from limpet.domain.job import Job, NewJob
from limpet.domain.rules import ChildFailure, Rules
from limpet.storage.contract.store import Store

WAITS = "waits for its children"
FAIL, SKIP, KEEP = (Rules(child_failure=each) for each in ChildFailure)


def parent(children: int, above: NewJob | None = None, **fields: Any) -> NewJob:
    """A job that waits for children, and may be a child itself."""
    rules = fields.pop("rules", Rules())._replace(children=children)
    return new_job(**{"parent": above and above.id, "rules": rules, "queue": "parents", **fields})


def child(of: NewJob | str, rules: Rules | None = None, **fields: Any) -> NewJob:
    return new_job(**{"parent": of if isinstance(of, str) else of.id, "rules": rules, **fields})


def ids(jobs: Sequence[NewJob | Job]) -> list[str]:
    return [job.id for job in jobs]


def flow(
    store: Store, children: int, rules: Rules | None = None, **fields: Any
) -> tuple[str, list[str]]:
    """A parent and its children, handed in together: their ids."""
    top = parent(children, **fields)
    below = [child(top, rules) for _ in range(children)]
    store.enqueue([top, *below])
    return top.id, ids(below)
