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


def mark(job: str, token: int) -> int:
    """The share of one held job in the digest."""
    return (int(job[-8:], 32) + (token % (1 << 20)) * _SPREAD) % _MODULUS


def digest(held: Iterable[tuple[str, int]]) -> Digest:
    """The digest of (job, token) pairs, in any order."""
    marks = [mark(job, token) for job, token in held]
    return Digest(len(marks), sum(marks) % _MODULUS)
