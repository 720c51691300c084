"""The fence: who may write about a running job, and a digest of what a session holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

_MODULUS = 1 << 48
# Odd, so that equal sums of different tokens are unlikely; below 2^53 products stay exact in Lua.
_SPREAD = 0x9E3779B1


class Lease(NamedTuple):
    """Right to report on one attempt; `token` grows with every claim of the job."""

    job: str
    session: str
    token: int


@dataclass(frozen=True, slots=True)
class Digest:
    """What a session holds, summed up so that claim and settle keep it up to date in one step."""

    count: int = 0
    total: int = 0

    def __add__(self, other: "Digest") -> "Digest":
        return Digest(self.count + other.count, (self.total + other.total) % _MODULUS)

    def __sub__(self, other: "Digest") -> "Digest":
        return Digest(self.count - other.count, (self.total - other.total) % _MODULUS)


def digest(held: Iterable[tuple[str, int]]) -> Digest:
    """The digest of (job, token) pairs, in any order: the end of each id as a number to the base
    of 32, plus its token times a constant, summed up.
    """
    count = names = tokens = 0
    for job, token in held:
        count += 1
        try:
            names += int(job[-8:], 32)
        except ValueError:
            names += 0  # no id of Limpet's: it counts by its token alone
        tokens += token % (1 << 20)
    return Digest(count, (names + tokens * _SPREAD) % _MODULUS)
