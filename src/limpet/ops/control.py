"""What a person does to a job."""

from limpet.domain.errors import InvalidOption, JobNotFound
from limpet.domain.ids import is_id
from limpet.domain.state import State
from limpet.storage.base import Store


def cancel_job(store: Store, job: str, reason: str = "") -> State:
    """Cancel a job, or ask its holder to; the answer is the state after it."""
    return store.cancel(known_id(job), reason)


def retry_job(store: Store, job: str) -> int:
    """Open a new round of a finished job; the answer is its number."""
    found = store.job(known_id(job))
    if found is None:
        raise JobNotFound(job)
    return store.retry(job, found.round)


def known_id(text: str) -> str:
    """Check the shape of an id, or refuse it with a sentence."""
    if not is_id(text):
        raise InvalidOption(
            f"{text!r} is not the id of a job; an id has 26 characters, digits and letters a-v."
        )
    return text
