"""Ids that sort by time: 26 characters, 48 bits of milliseconds and 80 of chance.

The alphabet is base-32 "extended hex" (0-9, a-v), because Python's `int(text, 32)`, Lua's
`tonumber(text, 32)` and a plain string comparison all read it as the same number.
"""

import os
import random
import re
import threading

from limpet.domain.clock import Clock
from limpet.domain.errors import InvalidOption
from limpet.domain.fork import anew_in_child

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LENGTH = 26
_RANDOM_BITS = 80
_SHAPE = re.compile(r"[0-7][0-9a-v]{25}")


class IdSource:
    """Makes ids; those of one process grow, also within one millisecond."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """A child that went on counting where its parent was would make the parent's ids again."""
        self._lock = threading.Lock()
        self._last = 0
        # Seeded by the system, then drawn without it: asking it each time gives way to other
        # threads, which costs more than the whole id.
        self._chance = random.Random(os.urandom(32))

    def new(self) -> str:
        with self._lock:
            fresh = (self._clock.wall() // 1000) << _RANDOM_BITS
            if fresh >> _RANDOM_BITS > self._last >> _RANDOM_BITS:
                # The top random bit stays clear, so that counting up never reaches the time.
                self._last = fresh | self._chance.getrandbits(_RANDOM_BITS - 1)
            else:
                self._last += 1 + self._chance.getrandbits(24)
            return _text(self._last)


def _text(number: int) -> str:
    pairs = [_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)]
    return "".join(pairs)


def is_id(text: str) -> bool:
    """Tell whether a text has the shape of an id."""
    return _SHAPE.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """Check the shape of an id, or refuse it with a sentence."""
    if not is_id(text):
        raise InvalidOption(
            f"{text!r} is not the id of a job; an id has 26 characters, digits and letters a-v."
        )
    return text
