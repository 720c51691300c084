"""What a task may send at its utmost stops no store: the job is kept, claimed, shown, settled."""

from typing import Any

import msgspec
import pytest
from contract.driver import Holder, get, new_job, promote_all

from limpet.domain.job import NewJob
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store
from limpet.worker.wire.task_requests import (
    EnqueueRequest,
    LimitKeyRequest,
    LimitQueueRequest,
    read_request,
)

MOMENT = (1 << 53) - 1
LONGEST = 36_500 * 86_400_000_000
MOST = 1_000_000_000
RATES = [Rate(MOST, MOST, MOST), Rate(1, LONGEST, 1)]
UTMOST: dict[str, dict[str, Any]] = {
    "priority": {"priority": 1_000},
    "least priority": {"priority": -1_000},
    "names": {"queue": "q" * 100, "weight_class": "w" * 100},
    "key and unique": {"key": "k" * 200, "unique": "ü" * 200},
    "moments": {"expires_at": MOMENT, "deadline_at": MOMENT},
    "options": {"options": '{"timeout":1e300,"stall_after":null,"retry":[],"x":[]}'},
    "version": {"payload_version": (1 << 31) - 1},
    "secrets": {"secrets": ("a/b/c", "~1") * 500},
    "key limit": {"key": "k", "rules": Rules(key_limit=MOST)},
    "unique for ever": {
        "unique": "u",
        "rules": Rules(unique_until=UniqueUntil.TIME, unique_for=LONGEST),
    },
}


def passed(job: NewJob) -> NewJob:
    """The job as it comes out of a request."""
    request = read_request(msgspec.msgpack.encode(EnqueueRequest([job])))
    assert isinstance(request, EnqueueRequest)
    return request.jobs[0]


@pytest.mark.parametrize("utmost", UTMOST)
def test_a_job_at_the_utmost_of_its_bounds_goes_its_way(
    store: Store, holder: Holder, utmost: str
) -> None:
    job = passed(new_job(**UTMOST[utmost]))
    plain = new_job()
    store.enqueue([job, plain])
    (first, second) = holder.claim()
    assert {first.lease.job, second.lease.job} == {job.id, plain.id}
    assert get(store, job.id).id == job.id
    holder.settle(Complete(first.lease), Complete(second.lease))
    store.retry(job.id, 1)
    assert store.queues()


def test_a_moment_at_its_utmost_keeps_nobody_else_waiting(store: Store, holder: Holder) -> None:
    job = passed(new_job(scheduled_for=MOMENT))
    plain = new_job()
    store.enqueue([job, plain])
    promote_all(store)
    assert holder.claim_ids() == [plain.id]


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_rate_at_its_utmost_keeps_no_other_queue_or_key_waiting(
    store: Store, holder: Holder, rate: Rate
) -> None:
    rules = QueueRules(MOST, rate, 1_000)
    for request in (LimitQueueRequest("default", rules), LimitKeyRequest("k", MOST, rate)):
        assert read_request(msgspec.msgpack.encode(request)) == request
    store.limit_queue("default", rules)
    store.limit_key("k", MOST, rate)
    store.enqueue([new_job(), new_job(key="k"), new_job(queue="other")])
    assert len(holder.claim_ids()) >= 2
    promote_all(store)
    assert store.queues()
