"""Loads the scripts that a store keeps beside its code, one file for each verb.

A file begins with a header of comments (purpose, params, returns). One of SQL holds one or more
statements, each under a line `-- statement: name`. One of Lua is one script; a line
`-- include: name` stands for the file of that name in its folder `include`.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DEFAULT_NAMESPACE = "limpet"
_STATEMENT = re.compile(r"^-- statement: (\w+)\s*$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """The statements of one verb, by name."""

    verb: str
    statements: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.statements[name]


@cache
def script(package: str, folder: str, verb: str, namespace: str = DEFAULT_NAMESPACE) -> Script:
    """The script of a verb, with its tables in the given name space."""
    text = text_of(package, f"{folder}/{verb}.sql", namespace)
    parts = _STATEMENT.split(text)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return Script(verb, {name: body.strip() for name, body in pairs})


def text_of(package: str, path: str, namespace: str = DEFAULT_NAMESPACE) -> str:
    """A script file as text; table names `limpet_…` get the prefix of the name space."""
    return _read(package, path).replace(f"{DEFAULT_NAMESPACE}_", f"{namespace}_")


@dataclass(frozen=True, slots=True)
class LuaScript:
    """A script as it is sent to the server, and the SHA-1 by which the server knows it."""

    verb: str
    text: str
    sha: str


@cache
def lua(package: str, folder: str, verb: str, fill: Callable[[str], str]) -> LuaScript:
    """The script of a verb, with its includes and without its comments.

    `fill` replaces placeholders in the text.
    """

    def included(found: "re.Match[str]") -> str:
        return _read(package, f"{folder}/include/{found[1]}.lua")

    text = _INCLUDE.sub(included, _read(package, f"{folder}/{verb}.lua"))
    text = fill(_COMMENT.sub("", text))
    return LuaScript(verb, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(package: str, path: str) -> str:
    return files(package).joinpath(path).read_text(encoding="utf-8")


def names(package: str, folder: str) -> list[str]:
    """The script files of a folder, in order."""
    entries = files(package).joinpath(folder).iterdir()
    return sorted(entry.name for entry in entries if entry.name.endswith(".sql"))
