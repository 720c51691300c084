"""The host of this process, by the settings: its name, and when it is too busy."""

import socket
from dataclasses import dataclass

from limpet import settings
from limpet.domain.load import USUAL_SMOOTHING, Smoothing
from limpet.domain.worker_settings import WorkerSettings
from limpet.gate.assess import USUAL_THRESHOLDS, Thresholds
from limpet.gate.identity import server_id
from limpet.gate.measure.capacity import Bounds, bounds_of_self
from limpet.host.boot import boot_id


@dataclass(frozen=True, slots=True)
class ThisHost:
    """A host: its name, when it is too busy, and how its load is averaged."""

    server: str
    thresholds: Thresholds = USUAL_THRESHOLDS
    smoothing: Smoothing = USUAL_SMOOTHING


def here_by(found: WorkerSettings, within: Bounds, root: str = "/") -> ThisHost:
    """Describe this host, by the settings of a worker and by what bounds this process."""
    return ThisHost(
        server_id(found.server_id, within, boot_id(), socket.gethostname(), root=root),
        Thresholds(found.gate_cpu, found.gate_memory, found.gate_pressure, found.gate_io),
        Smoothing(found.gate_rise, found.gate_fall),
    )


def here(given: str | None = None) -> ThisHost:
    """Describe this host, named as its workers name it: by the name `given`, else LIMPET_SERVER_ID,
    else `[worker]` in `limpet.toml`, else the name of the host itself.
    """
    return here_by(settings.load_worker(given={"server_id": given}), bounds_of_self())
