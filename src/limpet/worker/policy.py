"""The retry policy of a job: what travels with it, and what only the registered task can say."""

import msgspec

from limpet.domain.retry import Retry


def policy_of(options: str, registered: Retry | None) -> Retry:
    """The retry policy that travels with a job, with what only code can say."""
    if options == "{}":
        return registered or Retry()
    record = msgspec.json.decode(options).get("retry")
    return Retry.from_record(record).with_code_of(registered) if record else registered or Retry()
