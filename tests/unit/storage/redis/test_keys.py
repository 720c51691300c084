"""KEYS.md lists every key that the scripts of the Redis store use, and no other."""

import re
from pathlib import Path

from limpet.storage.redis import store

FOLDER = Path(store.__file__).parent
SCRIPTS = "\n".join(
    re.sub(r"^\s*--.*$", "", file.read_text(), flags=re.MULTILINE)
    for file in sorted(FOLDER.glob("lua/**/*.lua"))
)
KEYS = (FOLDER / "KEYS.md").read_text()


def listed() -> set[str]:
    """The first column of the tables, without what follows a slash."""
    rows = re.findall(r"^\| (`[^|]+) \|", KEYS, flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([a-z_]+)", row)]
    return set(names)


def test_every_key_that_a_script_names_is_listed() -> None:
    used = set(re.findall(r"P \.\. '([a-z_]+)", SCRIPTS))
    channels = set(re.findall(r"`{limpet}:([a-z]+)`", KEYS))
    assert used - listed() - channels == set()


def test_every_key_that_is_listed_is_named_by_a_script() -> None:
    assert {name for name in listed() if not re.search(rf"'{name}[/']", SCRIPTS)} == set()
