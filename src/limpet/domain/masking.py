"""Replaces the literal values of secrets in texts by stars.

A value is what is found at a path that is marked secret in arguments or a result: a text of at
least `SHORTEST` characters, a number of as many digits, or all such texts and numbers below a list
or an object. It is found in its literal form, as `repr` and JSON write it, and percent-encoded; of
a text of several lines each line is found too. Anything else that a program makes of a value (a
hash, base64, a part of it) is not found. If there are more values than can be searched in time, the
whole text counts as secret.

This runs in the event loop of other jobs. Compiling a pattern of the values takes 0.2 ms for one
and a second for thousands; searching for one after the other takes a tenth of that or less.
"""

import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

SHORTEST = 4
STARS = "***"
MOST_VALUES, MOST_LINES = 1_000, 5_000

_UNRESERVED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
)  # these are never percent-encoded
_QUOTED = frozenset("'\"\\")
_PERCENT = [chr(c) if c in _UNRESERVED else f"%{c:02X}" for c in range(256)]


class _TooMany(Exception):
    """There are more values than can be searched for in time."""


class _Known(NamedTuple):
    """The forms to search for, the longest first, because one may begin another."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    everything: bool = False


class Mask:
    """Replaces the values at some paths of JSON texts; the values are read at the first call."""

    __slots__ = ("_known", "_sources")

    def __init__(self, *sources: tuple[str, tuple[str, ...]]) -> None:
        """`sources`: JSON texts, each with its secret paths."""
        self._sources = sources
        self._known: _Known | None = None

    def __repr__(self) -> str:
        return "<Mask>"  # its fields hold the secrets

    def __call__(self, text: str) -> str:
        """The text with stars for every value in it."""
        if self._known is None:
            try:
                self._known = _known(self._values())
            except (ValueError, RecursionError, _TooMany):
                # The secrets cannot be read or searched for, so any text may hold one.
                self._known = _Known((), (), everything=True)
        known = self._known
        if known.everything:
            return STARS if text else text
        for form in known.texts:
            if form in text:
                text = text.replace(form, STARS)
        for number in known.numbers:
            if number in text:
                text = _without_number(text, number)
        return text

    def _values(self) -> Iterator[str | int | float]:
        for source, paths in self._sources:
            tree = json.loads(source)
            for path in paths:
                yield from _below(_at(tree, path))


NO_MASK = Mask()

hiding: ContextVar[Mask | None] = ContextVar("limpet_hiding", default=None)
"""The secrets of the running attempt; None if it has none."""


def hidden(text: str) -> str:
    """The text without the secrets of the running attempt."""
    mask = hiding.get()
    return text if mask is None else mask(text)


def _at(tree: Any, path: str) -> Any:
    """The value at a path; None if there is none."""
    for part in path.split("/") if path else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(tree, dict):
            tree = tree.get(name)
        elif isinstance(tree, list) and name.isdecimal() and int(name) < len(tree):
            tree = tree[int(name)]
        else:
            return None
    return tree


def _below(value: Any) -> Iterator[str | int | float]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
        elif isinstance(node, str | int | float) and not isinstance(node, bool):
            yield node


def _known(values: Iterable[str | int | float]) -> _Known:
    lines: set[str] = set()
    numbers: set[str] = set()
    for count, value in enumerate(values):
        if isinstance(value, str):
            lines |= _lines(value)
        else:
            numbers |= {repr(value), json.dumps(value)}
        if count >= MOST_VALUES or len(lines) > MOST_LINES:
            raise _TooMany
    texts: set[str] = set()
    for line in lines:
        texts |= _forms(line)
    long = [number for number in numbers if sum(map(str.isdigit, number)) >= SHORTEST]
    return _Known(_longest_first(texts), _longest_first(long))


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True))


def _lines(value: str) -> set[str]:
    """A text and each of its lines; nothing of a text that is too short."""
    if len(value) < SHORTEST:
        return set()
    return {value, *(line.strip() for line in value.splitlines())}


def _forms(text: str) -> set[str]:
    """The forms in which a text appears when it is quoted or encoded."""
    if text.isascii():
        if text.isalnum():
            return {text}
        encoded = text
    else:
        encoded = text.encode("utf-8", "backslashreplace").decode("latin-1")
    percent = encoded.translate(_PERCENT)
    found = {text, percent, percent.replace("%2F", "/"), percent.replace("%20", "+")}
    if text.isascii() and text.isprintable() and not _QUOTED.intersection(text):
        return found  # the forms below would be the same
    in_bytes = repr(encoded.encode("latin-1"))[2:-1]
    shown = repr(text)[1:-1]
    return found | {
        shown, shown.replace("'", "\\'"), ascii(text)[1:-1],
        in_bytes, in_bytes.replace("'", "\\'"),
        json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1],
    }  # fmt: skip


def _without_number(text: str, number: str) -> str:
    """Replace a number by stars where no other digit stands before or after it."""
    parts, start, at = [], 0, text.find(number)
    while at >= 0:
        end = at + len(number)
        if text[at - 1 : at].isdecimal() or text[end : end + 1].isdecimal():
            at = text.find(number, at + 1)
            continue
        parts += [text[start:at], STARS]
        start, at = end, text.find(number, end)
    return "".join((*parts, text[start:]))
