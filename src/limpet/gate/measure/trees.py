"""What the executors of each session on a host use, with all that they started, wherever that went.

A session is known by the mark in the environment of everything below its supervisor. So whoever
looks sees the executors of all workers of the host, as far as its pid namespace and its rights go.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from limpet.gate.measure.files import number
from limpet.host.marks import MARK, ZYGOTE

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MARKED = f"{MARK}=".encode()
# Of an environment, more than anybody has; a buffer of that size for each number would cost more
# than to read it.
_LONG_BYTES, _SHORT_BYTES = 1 << 20, 4096
# The parent of the kernel's own threads.
_KERNEL = 2


class Tree(NamedTuple):
    """An executor, or a command that holds a permit, with everything below it.

    `name`: what it calls itself. `cpu`: percent, 100 for a core, since the last look. `memory`:
    bytes, those that processes share counted for each. `own`: bytes that are held apart from all
    else, at the least: neither what caches files, nor what was there before a fork.
    """

    session: str
    pid: int
    name: str
    cpu: float
    memory: int
    own: int


class Trees(NamedTuple):
    """`sessions`: those of which a process was seen. `ended`: by session, the CPU that was used
    since the last look by what has ended meanwhile.
    """

    trees: tuple[Tree, ...]
    sessions: frozenset[str]
    ended: dict[str, float]


# By process id, of an executor; or of a whole session, where no tick is lost when one ends.
_Counted: TypeAlias = tuple[str, int | None]


class _Branch(NamedTuple):
    """Where a process belongs: its session, and which process below the session's first it is
    below, or is itself; None for the first. `start`: by which one is told from the next of its id.
    """

    session: str
    branch: int | None
    start: bytes


class _Stat(NamedTuple):
    """What the kernel counts for a process: of its ended children too, so that nothing is lost.

    `image`: where its code and its stack begin, which is drawn by lot for each program: a child
    that was forked and became no other has its parent's.
    """

    name: str
    start: bytes
    ticks: int
    resident: int
    image: tuple[bytes, bytes]


class SessionTrees:
    """Looks once a second; who belongs where is asked of each process when it appears."""

    def __init__(self, root: str = "/") -> None:
        self._proc = os.path.join(root, "proc")
        self._parents: dict[int, int] = {}
        self._places: dict[int, _Branch | None] = {}
        self._new: frozenset[int] = frozenset()
        self._ticks: dict[_Counted, int] = {}
        self._at: int | None = None

    def sample(self, boot_microseconds: int) -> Trees:
        """What they use now."""
        self._look()
        mine = {pid: place for pid, place in self._places.items() if place is not None}
        stats: dict[int, _Stat] = {}
        for pid, place in list(mine.items()):
            stat = self._stat(pid)
            if stat is None or stat.start != place.start:
                del mine[pid], self._places[pid]  # another has its id by now: asked the next time
            else:
                stats[pid] = stat
        zygotes = {
            place.session: pid
            for pid, place in mine.items()
            if place.branch is None and stats[pid].name == ZYGOTE
        }
        members = self._members(mine, zygotes)
        ticks: dict[_Counted, int] = {}
        for pid, place in mine.items():
            key = (place.session, None)
            ticks[key] = ticks.get(key, 0) + stats[pid].ticks
        for (session, executor), pids in members.items():
            ticks[session, executor] = sum(stats[pid].ticks for pid in pids)
        cpu = self._percent(ticks, boot_microseconds)
        trees = tuple(
            Tree(
                session,
                executor,
                stats[executor].name if executor in stats else "",
                cpu[session, executor],
                sum(stats[pid].resident for pid in pids),
                self._own_bytes(pids, stats, zygotes.get(session)),
            )
            for (session, executor), pids in members.items()
        )
        ended = {session: cpu[session, None] for session, executor in ticks if executor is None}
        for tree in trees:
            ended[tree.session] = max(0.0, ended[tree.session] - tree.cpu)
        return Trees(trees, frozenset(ended), ended)

    def below(self, pid: int) -> tuple[int, int]:
        """The CPU time that a process and those below it have ever used, in microseconds, and the
        bytes that they hold; without those of sessions, as of the last look.
        """
        children: dict[int, list[int]] = {}
        for each, parent in self._parents.items():
            children.setdefault(parent, []).append(each)
        found: list[int] = []
        wanted = [pid]
        while wanted:
            each = wanted.pop()
            if self._places.get(each) is None:
                found.append(each)
                wanted += children.get(each, ())
        stats = {each: stat for each in found if (stat := self._stat(each)) is not None}
        spent = sum(stat.ticks for stat in stats.values()) * 1_000_000 // _TICKS_PER_SECOND
        return spent, self._own_bytes(stats, stats, None)

    @staticmethod
    def _members(
        mine: dict[int, _Branch], zygotes: dict[str, int]
    ) -> dict[tuple[str, int], set[int]]:
        """The processes of each executor: a child of a zygote, or a command that holds a permit.
        The zygote itself is of none: it holds what its executors began with.
        """
        firsts = {place.session: pid for pid, place in mine.items() if place.branch is None}
        found: dict[tuple[str, int], set[int]] = {}
        for pid, place in mine.items():
            executor = place.branch
            if place.session not in zygotes:
                executor = firsts.get(place.session, pid)
            if executor is not None:
                found.setdefault((place.session, executor), set()).add(pid)
        return found

    def _percent(self, ticks: dict[_Counted, int], now: int) -> dict[_Counted, float]:
        """What was spent since the last call, in percent of a core."""
        before, since = self._ticks, self._at
        self._ticks, self._at = ticks, now
        if since is None or now <= since:
            return dict.fromkeys(ticks, 0.0)
        seconds = (now - since) / 1e6
        # What was not there before has begun since then.
        spent = {key: max(0, each - before.get(key, 0)) for key, each in ticks.items()}
        return {key: each / _TICKS_PER_SECOND / seconds * 100 for key, each in spent.items()}

    # -- who is there, and whose

    def _look(self) -> None:
        try:
            alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError:
            alive = set()
        # Each is asked twice: between fork and exec one shows the environment that it leaves.
        known = self._places.keys() - self._new
        self._places = {pid: self._places[pid] for pid in known & alive}
        self._parents = {pid: up for pid, up in self._parents.items() if pid in alive}
        again, self._new = self._new, frozenset(alive - self._places.keys())
        for pid in self._new:
            self._place(pid, alive)
        self._new -= again

    def _place(self, pid: int, alive: Iterable[int]) -> _Branch | None:
        if pid in self._places or pid not in alive:
            return self._places.get(pid)
        self._places[pid] = None  # should they go round in a circle, as in a tree that changes
        fields = self._fields(pid)[1]
        if len(fields) < 20:
            return None
        parent = self._parents[pid] = number(fields[1]) or 0
        if parent == _KERNEL:
            return None
        above = self._place(parent, alive) if parent else None
        session = self._mark(pid) or (above.session if above else None)
        if session is not None:
            inside = above is not None and above.session == session
            branch = (above.branch or pid) if inside and above else None
            self._places[pid] = _Branch(session, branch, fields[19])
        return self._places[pid]

    def _mark(self, pid: int) -> str | None:
        text = self._read(pid, "environ", _LONG_BYTES)
        if _MARKED not in text:
            return None
        for each in text.split(b"\0"):
            if each.startswith(_MARKED):
                return each[len(_MARKED) :].decode(errors="replace") or None
        return None

    # -- what they use

    def _stat(self, pid: int) -> _Stat | None:
        name, fields = self._fields(pid)
        if len(fields) < 26:
            return None
        spent = sum(number(each) or 0 for each in fields[11:15])
        resident = (number(fields[21]) or 0) * _PAGE_BYTES
        return _Stat(name, fields[19], spent, resident, (fields[23], fields[25]))

    def _own_bytes(self, pids: Iterable[int], stats: dict[int, _Stat], zygote: int | None) -> int:
        """What these processes hold apart from all else, at the least.

        Those of one program came from each other by forks, and nobody can tell cheaply how much
        they still share: the one that holds most stands for all of them, and of what it holds the
        zygote may have as much as that has.
        """
        began = stats[zygote].image if zygote in stats else None
        most: dict[tuple[bytes, bytes], int] = {}
        for pid in pids:
            image = stats[pid].image
            most[image] = max(most.get(image, 0), self._anonymous(pid))
        if zygote is not None and began in most:
            most[began] = max(0, most[began] - self._anonymous(zygote))
        return sum(most.values())

    def _anonymous(self, pid: int) -> int:
        """Of its memory, what is of no file and is not shared on purpose."""
        fields = self._read(pid, "statm").split()
        if len(fields) < 3:
            return 0
        return max(0, (number(fields[1]) or 0) - (number(fields[2]) or 0)) * _PAGE_BYTES

    def _fields(self, pid: int) -> tuple[str, list[bytes]]:
        """The name of a process, and what the kernel says of it after that: state, parent …"""
        text = self._read(pid, "stat")
        # The name, in parentheses, may itself hold any character.
        begin, end = text.find(b"("), text.rfind(b")")
        return text[begin + 1 : end].decode(errors="replace"), text[end + 2 :].split()

    def _read(self, pid: int, name: str, most: int = _SHORT_BYTES) -> bytes:
        """One of its files; nothing if it is gone, or not for us to see."""
        try:
            descriptor = os.open(f"{self._proc}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(descriptor, most)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
