"""The part of an app that reserves room on its host for work that is no job."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from limpet.domain.duration import Duration
from limpet.domain.errors import InvalidOption
from limpet.domain.size import Size
from limpet.domain.weight import Weight
from limpet.payload.context import current
from limpet.storage.contract.store import Store

if TYPE_CHECKING:
    from limpet.gate.permits.permit import Permit


class Way(Protocol):
    """The part of an app's client that a permit needs."""

    store: Store
    inside_worker: bool


class AppPermits(ABC):
    """The part of an app that gives permits."""

    @property
    @abstractmethod
    def client(self) -> Way:
        """The client that reaches the store."""

    def permit(
        self,
        cpu: float = 1.0,
        memory: Size = 0,
        heavy: bool = False,
        *,
        name: str | None = None,
        timeout: Duration | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> "Permit":
        """Reserve room on this host outside of any worker: `with app.permit(cpu=1.0):`, or
        `async with`. Entering waits for the room; after `timeout` it raises `GateTimeout` with the
        reason. See `limpet.Permit`.
        """
        if current() is not None or self.client.inside_worker:
            raise InvalidOption(
                "app.permit is for callers outside of a worker; a task declares what it weighs "
                "instead, and its jobs begin where there is room: @app.task(weight=Weight(…))."
            )
        # Imported here, because few apps need the code that measures a host.
        from limpet.gate.permits.permit import Permit
        from limpet.gate.this_host import here

        weight = Weight(cpu, memory, heavy=heavy)
        store = self.client.store
        return Permit(store, here, weight, name=name, timeout=timeout, on_lost=on_lost)
