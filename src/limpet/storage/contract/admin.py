"""The verbs that keep the store itself sound."""

from datetime import timedelta
from typing import Protocol

from limpet.storage.contract.answers import Broken, Mended


class AdminVerbs(Protocol):
    """What keeps the store itself sound."""

    def migrate(self) -> tuple[str, ...]:
        """Bring the schema up to this version; the answer names the steps. Atomic. A repeat
        has nothing to do.
        """
        ...

    def invariants(self) -> tuple[Broken, ...]:
        """Check what must always hold; the answer lists what does not. Reads only."""
        ...

    def mend(self) -> tuple[Mended, ...]:
        """Put right what can be told from the jobs themselves: counts that are wrong, places in a
        line, a blocked job that waits for nothing. No job is removed, and none is moved out of or
        into a final state. Atomic for each job and each count; the answer says what was mended,
        which is also counted in the totals as `mend:RULE`, for the queue `*`. A repeat finds
        nothing left.
        """
        ...

    def prepare_for(self, lease: timedelta) -> None:
        """Open what the renewals of such a lease need, before it begins to run. Changes nothing
        in the store.
        """
        ...
