"""What programs with a permit use: they carry no mark, but one of their processes has the lock."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from limpet.domain.reading import Use
from limpet.gate.measure.trees import SessionTrees
from limpet.host import locks


class _Seen(NamedTuple):
    """At the last look: when, and what was used ever; and what was held at the first look."""

    at: int
    spent: int
    base: int


class Callers:
    """Looks with the trees, right after them."""

    def __init__(self, trees: SessionTrees, root: str = "/") -> None:
        self._trees = trees
        self._root = root
        self._seen: dict[str, _Seen] = {}

    def sample(self, sessions: Iterable[str], boot_microseconds: int) -> dict[str, Use]:
        """What each that can be seen uses: CPU since the last look, bytes since the first.

        A program may hold several permits at once, as a web server does: then what it uses is
        theirs in equal parts, which never adds up to more than there is.
        """
        now, uses = boot_microseconds, {}
        owners = locks.owners(sessions, self._root)
        sharing = Counter(owners.values())
        before, self._seen = self._seen, {}
        for session, pid in owners.items():
            spent, held = self._trees.below(pid)
            last = before.get(session, _Seen(now, spent, held))
            self._seen[session] = _Seen(now, spent, last.base)
            share = (spent - last.spent) / (now - last.at) * 100 if now > last.at else 0.0
            among = sharing[pid]
            uses[session] = Use(max(0.0, share) / among, max(0, held - last.base) // among)
        return uses
