"""Standard input, output and error of a process that was started without some of them."""

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def open_missing() -> frozenset[str]:
    """Open /dev/null for each that is closed, and name those.

    Else the next file that is opened gets its number, and what somebody prints is written there.
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
    """Send what is still written to a stream that cannot be written to nowhere."""
    _open_null(_NAMES.index(name))


def _open_null(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
