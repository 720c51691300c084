"""Replaces standard input, output or error where a process was started without them."""

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def open_missing() -> frozenset[str]:
    """Open /dev/null for each closed standard stream; the answer names those.

    Otherwise the next opened file gets the number of the stream, and printed text ends up in it.
    """
    missing = set()
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number)
            mode = "r" if number == 0 else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
            missing.add(name)
    return frozenset(missing)


def discard(name: str) -> None:
    """Send all further output of a broken stream to /dev/null."""
    _open_null(_NAMES.index(name))


def _open_null(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
