"""`limpet.toml`: where it is, and what it may set."""

import tomllib
from pathlib import Path
from typing import Any

from limpet.domain.errors import InvalidOption

FILE = "limpet.toml"

PLAIN = ("url", "app", "payload_limit", "store_patience")
RETENTION = "retention"
WORKER = "worker"
_TABLES = {RETENTION: 'retention.failed = "30d"', WORKER: 'worker.lease = "10s"'}


def current_folder() -> Path:
    """The current folder; refused with a sentence if it cannot be read."""
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidOption(
            f"the current folder cannot be read ({error.strerror}); change to another."
        ) from error


def lines_of(path: Path) -> dict[str, Any]:
    """The settings in the file; none if there is no file."""
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
    refuse_unknown(lines, (*PLAIN, *_TABLES), str(path))
    for name, example in _TABLES.items():
        if not isinstance(lines.get(name, {}), dict):
            raise InvalidOption(f"{path}: write {name} as a table, as in {example}.")
    return lines


def refuse_unknown(found: dict[str, Any], known: tuple[str, ...], source: str) -> None:
    """Refuse settings that do not exist, with a sentence that lists those that do."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InvalidOption(
            f"{source}: unknown setting {', '.join(unknown)}; known are {', '.join(known)}."
        )
