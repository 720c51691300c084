"""Why a job, or a queue, does not run, asked at the time of the test's clock."""

from limpet.ops.reason import Reason
from limpet.ops.why import queue_reasons, why_job
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def why(store: Store, job: str, clock: FakeClock) -> Reason:
    return why_job(store, job, clock.wall())


def of_queue(store: Store, clock: FakeClock, queue: str = "default") -> Reason | None:
    return queue_reasons(store, store.queues(), clock.wall()).get(queue)
