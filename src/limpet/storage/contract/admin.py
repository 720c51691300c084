"""The verbs that keep the store itself sound."""

from datetime import timedelta
from typing import Protocol

from limpet.storage.contract.answers import Broken, Repaired


class AdminVerbs(Protocol):
    """The verbs that keep the store itself sound."""

    def migrate(self) -> tuple[str, ...]:
        """Bring the schema up to this version; the answer names the steps. Atomic. A repeat
        has nothing to do.
        """
        ...

    def invariants(self) -> tuple[Broken, ...]:
        """Check the invariants; the answer lists those that do not hold. Reads only."""
        ...

    def repair_store(self) -> tuple[Repaired, ...]:
        """Correct what follows from the jobs themselves: wrong counts, places in a line, a blocked
        job that waits for nothing. No job is removed, and none is moved out of or into a final
        state. Atomic for each job and each count. The answer lists the repairs, which the totals
        also count as `mend:RULE`, for the queue `*`. A repeat finds nothing left.
        """
        ...

    def prepare_for(self, lease: timedelta) -> None:
        """Open the connections that renewals of such a lease need, before the lease begins to run.
        Changes nothing in the store.
        """
        ...
