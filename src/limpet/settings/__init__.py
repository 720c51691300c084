"""Settings: an argument, else a `LIMPET_*` variable, else a line in `limpet.toml`."""

from limpet.domain.worker_settings import WorkerSettings
from limpet.settings.file import FILE, current_folder
from limpet.settings.general import DEFAULT_PAYLOAD_LIMIT, DEFAULT_URL, Settings, load
from limpet.settings.worker import WorkerOption, load_worker, worker_options

__all__ = [
    "DEFAULT_PAYLOAD_LIMIT",
    "DEFAULT_URL",
    "FILE",
    "Settings",
    "WorkerOption",
    "WorkerSettings",
    "current_folder",
    "load",
    "load_worker",
    "worker_options",
]
