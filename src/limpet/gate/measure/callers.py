"""Measures programs that hold a permit: they carry no mark, but one of their processes has the lock
of the session.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from limpet.domain.reading import Use
from limpet.gate.measure.trees import SessionTrees
from limpet.host import locks


class _Seen(NamedTuple):
    """A caller at the last look: `at`, in boot time, it had used `spent_us` of CPU time in all.

    `base_bytes`: the memory that it held at the first look.
    """

    at: int
    spent_us: int
    base_bytes: int


class Callers:
    """Measures callers of the host by its session trees; call it right after these have looked."""

    def __init__(self, trees: SessionTrees, root: str = "/") -> None:
        self._trees = trees
        self._root = root
        self._seen: dict[str, _Seen] = {}

    def sample(self, sessions: Iterable[str], boot_microseconds: int) -> dict[str, Use]:
        """What each caller uses whose process can be seen: CPU since the last look, bytes since the
        first; by session.

        A program may hold several permits at once, as a web server does. Its use is then divided
        equally among them, so that it is never counted twice.
        """
        now, uses = boot_microseconds, {}
        owners = locks.owners(sessions, self._root)
        sharing = Counter(owners.values())
        before, self._seen = self._seen, {}
        for session, pid in owners.items():
            spent_us, held_bytes = self._trees.below(pid)
            last = before.get(session, _Seen(now, spent_us, held_bytes))
            self._seen[session] = _Seen(now, spent_us, last.base_bytes)
            percent = (spent_us - last.spent_us) / (now - last.at) * 100 if now > last.at else 0.0
            among = sharing[pid]
            grown = max(0, held_bytes - last.base_bytes)
            uses[session] = Use(max(0.0, percent) / among, grown // among)
        return uses
