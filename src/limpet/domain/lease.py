"""The fence: who may write about a running job, and a digest of what a session holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

_MODULUS = 1 << 48
# Odd, so that equal sums of different tokens are unlikely; below 2^53 products stay exact in Lua.
_SPREAD = 0x9E3779B1


class Lease(NamedTuple):
    """The right to report on one attempt; `token` grows with every claim of the job."""

    job: str
    session: str
    token: int


@dataclass(frozen=True, slots=True)
class Digest:
    """A sum of all that a session holds; claim and settle update it by adding and subtracting."""

    count: int = 0
    total: int = 0

    def __add__(self, other: "Digest") -> "Digest":
        return Digest(self.count + other.count, (self.total + other.total) % _MODULUS)

    def __sub__(self, other: "Digest") -> "Digest":
        return Digest(self.count - other.count, (self.total - other.total) % _MODULUS)


def digest(held: Iterable[tuple[str, int]]) -> Digest:
    """The digest of (job, token) pairs, in any order.

    The sum of the end of each id, read as a number in base 32, and its token times a constant.
    """
    count = names = tokens = 0
    for job, token in held:
        count += 1
        try:
            names += int(job[-8:], 32)
        except ValueError:
            names += 0  # not an id of Limpet's: only its token counts
        tokens += token % (1 << 20)
    return Digest(count, (names + tokens * _SPREAD) % _MODULUS)
