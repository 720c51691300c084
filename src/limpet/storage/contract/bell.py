"""How those who wait for a change in the store are woken."""

from datetime import timedelta
from enum import StrEnum
from typing import Protocol


class Topic(StrEnum):
    """The reasons for which a bell rings.

    `ready`: a job became ready. `done`: a job reached a final state. `cancel`: cancellation of a
    running job was requested; `renew` tells its holder which job.
    """

    READY = "ready"
    DONE = "done"
    CANCEL = "cancel"


class Bell(Protocol):
    """Wakes those who wait for a topic. A missed ring only delays them until a slow poll."""

    def wait(self, timeout: timedelta) -> bool:
        """True as soon as the bell rings, False when the time is up; forgets earlier rings."""
        ...

    def fileno(self) -> int:
        """A descriptor that becomes readable when the bell rings."""
        ...

    def close(self) -> None: ...
