"""Settings: an argument, else a `LIMPET_*` variable, else a line in `limpet.toml`."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.domain.errors import InvalidOption

FILE = "limpet.toml"
DEFAULT_URL = "sqlite:///limpet.db"
DEFAULT_PAYLOAD_LIMIT = 1024 * 1024

_PLAIN = ("url", "app", "payload_limit")
_RETENTION = "retention"


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set outside the code.

    `app`: the user's app as "module:name". `payload_limit`: the most bytes of arguments or of a
    result. `retention`: how long finished jobs are kept, by state.
    """

    url: str = DEFAULT_URL
    app: str | None = None
    payload_limit: int = DEFAULT_PAYLOAD_LIMIT
    retention: Mapping[str, str] = field(default_factory=dict)


def load(
    *,
    url: str | None = None,
    app: str | None = None,
    payload_limit: int | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force; a wrong one is refused with its name and its source."""
    variables = os.environ if environ is None else environ
    path = (folder or here()) / FILE
    lines = _file(path)
    found: dict[str, Any] = {}
    given = {"url": url, "app": app, "payload_limit": payload_limit}
    for name in _PLAIN:
        variable = f"LIMPET_{name.upper()}"
        if given[name] is not None:
            found[name] = _typed(name, given[name], name)
        elif variables.get(variable):
            found[name] = _typed(name, variables[variable], variable)
        elif name in lines:
            found[name] = _typed(name, lines[name], f"{name} in {path}")
    kept = dict(lines.get(_RETENTION, {}))
    prefix = f"LIMPET_{_RETENTION.upper()}_"
    for variable, value in variables.items():
        if variable.startswith(prefix):
            kept[variable.removeprefix(prefix).lower()] = value
    return Settings(**found, retention=kept)


def here() -> Path:
    """The current folder, or a sentence if it is gone."""
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidOption(
            f"the current folder cannot be read ({error.strerror}); change to another."
        ) from error


def _file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{path} cannot be read: {error}") from error
    try:
        lines = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(f"{path} is not valid TOML: {error}") from error
    unknown = sorted(set(lines) - {*_PLAIN, _RETENTION})
    if unknown:
        raise InvalidOption(
            f"{path}: unknown setting {', '.join(unknown)}; known are "
            f"{', '.join([*_PLAIN, _RETENTION])}."
        )
    if not isinstance(lines.get(_RETENTION, {}), dict):
        raise InvalidOption(f'{path}: write retention as a table, as in retention.failed = "30d".')
    return lines


def _typed(name: str, value: object, source: str) -> object:
    if name == "payload_limit":
        try:
            number = int(str(value))
        except ValueError:
            number = 0
        if number < 1:
            raise InvalidOption(f"{source} is {value!r}; write a number of bytes from 1 up.")
        return number
    if not isinstance(value, str):
        raise InvalidOption(f"{source} is {value!r}; write a text.")
    return value
