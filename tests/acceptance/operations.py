"""What tests of operations have in common: jobs, and the command line in this process."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from contract.driver import BOOM, Holder

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.transition import Fail
from limpet.storage.contract.store import Store

SECOND = 1_000_000
IDS = IdSource(SystemClock())


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Say = Callable[..., Said]


def add(store: Store, task: str = "task", **fields: Any) -> str:
    """Enqueue one job, with an id as users have it."""
    job = NewJob(**{"id": IDS.new(), "task": task, "args": "{}", **fields})
    store.enqueue([job])
    return job.id


def failed(store: Store, holder: Holder, **fields: Any) -> str:
    job = add(store, **fields)
    holder.settle(Fail(holder.take(), BOOM))
    return job
