"""A job whose lease was found to hold."""

from typing import NamedTuple

from limpet.domain.cause import Cause, Requested
from limpet.storage.records.texts import cause_in, has_hook
from limpet.storage.sql.outcome import Held


class HeldJob(NamedTuple):
    """A held job, and what may be asked about it beside its row."""

    row: Held
    options: str
    requested: str | None

    def has_orphan_hook(self, job: Held) -> bool:
        return has_hook(job.lease.job, self.options)

    def request(self, job: Held) -> Cause:
        told = cause_in("job", job.lease.job, self.requested, "cancel_requested event")
        return told or Requested()
