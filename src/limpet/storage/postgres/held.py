"""A job whose lease was found to hold."""

from typing import NamedTuple

from limpet.domain.cause import Cause, Requested
from limpet.storage.records.texts import cause_in, has_hook
from limpet.storage.sql.outcome import HeldRow


class HeldJob(NamedTuple):
    """A held job: its row, its options, and why its cancellation was requested."""

    row: HeldRow
    options: str
    requested: str | None

    def has_orphan_hook(self, job: HeldRow) -> bool:
        return has_hook(job.lease.job, self.options)

    def request(self, job: HeldRow) -> Cause:
        cause = cause_in("job", job.lease.job, self.requested, "cancel_requested event")
        return cause or Requested()
