"""The settings of every process: the store, the app, limits and retention."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from limpet.domain.duration import Duration
from limpet.settings.file import FILE, PLAIN, RETENTION, current_folder, lines_of
from limpet.settings.values import a_count, a_text, a_time

DEFAULT_URL = "sqlite:///limpet.db"
DEFAULT_PAYLOAD_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set outside the code.

    `app`: the user's app as "module:name". `payload_limit`: the most bytes of arguments or of a
    result. `store_patience`: how long `enqueue` goes on trying while the store does not answer.
    `retention`: how long finished jobs are kept, by state.
    """

    url: str = DEFAULT_URL
    app: str | None = None
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT
    store_patience: timedelta = timedelta(0)
    retention: Mapping[str, str] = field(default_factory=dict)


def load(
    *,
    url: str | None = None,
    app: str | None = None,
    payload_limit: int | None = None,
    store_patience: Duration | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force; a wrong one is refused with its name and its source."""
    variables = os.environ if environ is None else environ
    path = (folder or current_folder()) / FILE
    lines = lines_of(path)
    found: dict[str, Any] = {}
    given = {
        "url": url,
        "app": app,
        "payload_limit": payload_limit,
        "store_patience": store_patience,
    }
    for name in PLAIN:
        variable = f"LIMPET_{name.upper()}"
        if given[name] is not None:
            found[name] = _typed(name, given[name], name)
        elif variables.get(variable):
            found[name] = _typed(name, variables[variable], variable)
        elif name in lines:
            found[name] = _typed(name, lines[name], f"{name} in {path}")
    kept = dict(lines.get(RETENTION, {}))
    prefix = f"LIMPET_{RETENTION.upper()}_"
    for variable, value in variables.items():
        if variable.startswith(prefix):
            kept[variable.removeprefix(prefix).lower()] = value
    return Settings(**found, retention=kept)


def _typed(name: str, value: object, source: str) -> object:
    if name == "payload_limit":
        return a_count(value, source, least=1, unit="bytes")
    if name == "store_patience":
        return a_time(value, source)
    return a_text(value, source)
