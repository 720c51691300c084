"""What a person does to one job."""

from limpet.domain.errors import JobNotFound
from limpet.domain.ids import checked_id
from limpet.domain.state import State
from limpet.storage.contract.store import Store


def cancel_job(store: Store, job: str, reason: str = "") -> State:
    """Cancel a job, or ask its holder to; returns the state after that."""
    return store.cancel(checked_id(job), reason)


def retry_job(store: Store, job: str) -> int:
    """Open a new round of a finished job; returns the number of the round."""
    found = store.job(checked_id(job))
    if found is None:
        raise JobNotFound(job)
    return store.retry(job, found.round)
