"""Measures the executors of each session on a host, with all processes that they started.

Everything below a supervisor carries the mark of its session in its environment. So one worker sees
the executors of all workers of the host, as far as its pid namespace and its rights go.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from limpet.gate.measure.files import number
from limpet.host.marks import MARK, ZYGOTE

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MARKED = f"{MARK}=".encode()
# The long buffer holds any environment. Small files are read into the short one, because allocating
# the long one would cost more than the reading.
_LONG_BYTES, _SHORT_BYTES = 1 << 20, 4096
# The process that is the parent of the kernel's own threads.
_KERNEL = 2


class Tree(NamedTuple):
    """An executor, or a command that holds a permit, with everything below it.

    `name`: its process name. `cpu_percent`: since the last look, 100 for a core. `memory_bytes`:
    resident; shared bytes count for each process. `own_bytes`: those that certainly belong to this
    tree alone: without cached files, and without what was there before a fork.
    """

    session: str
    pid: int
    name: str
    cpu_percent: float
    memory_bytes: int
    own_bytes: int


class Trees(NamedTuple):
    """All trees of a host. `sessions`: those of which a process was seen. `ended`: by session, the
    CPU used since the last look by processes that have ended meanwhile.
    """

    trees: tuple[Tree, ...]
    sessions: frozenset[str]
    ended: dict[str, float]


# A session and the process id of one of its executors. With None: the whole session, whose ticks
# include those of executors that have ended.
_Counted: TypeAlias = tuple[str, int | None]


class _Branch(NamedTuple):
    """Where a process belongs: its session, and its branch. `branch`: the child of the session's
    first process that it is, or is below; None for the first process itself. `start`: when the
    process started, which tells it from a later one of the same id.
    """

    session: str
    branch: int | None
    start: bytes


class _Stat(NamedTuple):
    """What the kernel counts for a process; `ticks` include those of its ended children.

    `image`: the addresses of its code and its stack, which the kernel draws at random for each
    program: a child that was forked and ran no `exec` has those of its parent.
    """

    name: str
    start: bytes
    ticks: int
    resident_bytes: int
    image: tuple[bytes, bytes]


class SessionTrees:
    """Looks once a second; finds the session of each process when the process appears."""

    def __init__(self, root: str = "/") -> None:
        self._proc = os.path.join(root, "proc")
        self._parents: dict[int, int] = {}
        self._places: dict[int, _Branch | None] = {}
        self._new: frozenset[int] = frozenset()
        self._ticks: dict[_Counted, int] = {}
        self._at: int | None = None

    def sample(self, boot_microseconds: int) -> Trees:
        """Measure the trees now."""
        self._look()
        mine = {pid: place for pid, place in self._places.items() if place is not None}
        stats: dict[int, _Stat] = {}
        for pid, place in list(mine.items()):
            stat = self._stat(pid)
            if stat is None or stat.start != place.start:
                # Another process has the id by now; it is placed at the next look.
                del mine[pid], self._places[pid]
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
                sum(stats[pid].resident_bytes for pid in pids),
                self._own_bytes(pids, stats, zygotes.get(session)),
            )
            for (session, executor), pids in members.items()
        )
        ended = {session: cpu[session, None] for session, executor in ticks if executor is None}
        for tree in trees:
            ended[tree.session] = max(0.0, ended[tree.session] - tree.cpu_percent)
        return Trees(trees, frozenset(ended), ended)

    def below(self, pid: int) -> tuple[int, int]:
        """The CPU time that a process and those below it have ever used, in microseconds, and the
        bytes that they hold. Processes of sessions are left out; as of the last look.
        """
        children: dict[int, list[int]] = {}
        for child, parent in self._parents.items():
            children.setdefault(parent, []).append(child)
        found: list[int] = []
        wanted = [pid]
        while wanted:
            member = wanted.pop()
            if self._places.get(member) is None:
                found.append(member)
                wanted += children.get(member, ())
        stats = {member: stat for member in found if (stat := self._stat(member)) is not None}
        spent = sum(stat.ticks for stat in stats.values()) * 1_000_000 // _TICKS_PER_SECOND
        return spent, self._own_bytes(stats, stats, None)

    @staticmethod
    def _members(
        mine: dict[int, _Branch], zygotes: dict[str, int]
    ) -> dict[tuple[str, int], set[int]]:
        """The processes of each executor: a child of a zygote, or a command that holds a permit.
        The zygote itself belongs to none: its memory is what its executors began with.
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
        """The CPU used since the last call, in percent of a core."""
        before, since = self._ticks, self._at
        self._ticks, self._at = ticks, now
        if since is None or now <= since:
            return dict.fromkeys(ticks, 0.0)
        seconds = (now - since) / 1e6
        # A process that is new has begun since the last call: all its ticks count.
        spent = {key: max(0, count - before.get(key, 0)) for key, count in ticks.items()}
        return {key: count / _TICKS_PER_SECOND / seconds * 100 for key, count in spent.items()}

    # -- which processes there are, and where they belong

    def _look(self) -> None:
        try:
            alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError:
            alive = set()
        # Each process is placed at two looks: between fork and exec it still has the environment of
        # its parent.
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
        self._places[pid] = None  # ends the recursion if a changing tree shows parents in a circle
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
        for variable in text.split(b"\0"):
            if variable.startswith(_MARKED):
                return variable[len(_MARKED) :].decode(errors="replace") or None
        return None

    # -- what processes use

    def _stat(self, pid: int) -> _Stat | None:
        name, fields = self._fields(pid)
        if len(fields) < 26:
            return None
        spent = sum(number(field) or 0 for field in fields[11:15])
        resident_bytes = (number(fields[21]) or 0) * _PAGE_BYTES
        return _Stat(name, fields[19], spent, resident_bytes, (fields[23], fields[25]))

    def _own_bytes(self, pids: Iterable[int], stats: dict[int, _Stat], zygote: int | None) -> int:
        """The bytes that certainly belong to these processes alone.

        Processes of one program were forked from each other, and how much they still share cannot
        be found out cheaply: the one that holds most counts for all of them. What the zygote holds
        is taken off, since the process may share all of that with it.
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
        """The bytes of a process that belong to no file and are not shared on purpose."""
        fields = self._read(pid, "statm").split()
        if len(fields) < 3:
            return 0
        return max(0, (number(fields[1]) or 0) - (number(fields[2]) or 0)) * _PAGE_BYTES

    def _fields(self, pid: int) -> tuple[str, list[bytes]]:
        """The name of a process, and the fields after it in its `stat` file: state, parent …"""
        text = self._read(pid, "stat")
        # The name, in parentheses, may itself hold any character.
        begin, end = text.find(b"("), text.rfind(b")")
        return text[begin + 1 : end].decode(errors="replace"), text[end + 2 :].split()

    def _read(self, pid: int, name: str, most: int = _SHORT_BYTES) -> bytes:
        """A file of a process; empty if the process is gone, or may not be read."""
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
