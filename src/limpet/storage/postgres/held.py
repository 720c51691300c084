"""A job whose lease was found to hold."""

from typing import NamedTuple

import msgspec

from limpet.domain.cause import Cause, Requested
from limpet.storage.outcome import Held
from limpet.storage.texts import error_of


class HeldJob(NamedTuple):
    """A held job, and what may be asked about it beside its row."""

    row: Held
    options: str
    requested: str | None

    def has_orphan_hook(self, _: Held) -> bool:
        return bool(msgspec.json.decode(self.options).get("orphan_hook"))

    def request(self, _: Held) -> Cause:
        return error_of(self.requested) or Requested()
