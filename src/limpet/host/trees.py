"""What the processes of each session on a host use, whoever started them and wherever they went.

A session is known by the mark in the environment of everything below its supervisor. So whoever
looks sees the executors of all workers of the host, as far as its pid namespace and its rights go.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from limpet.domain.reading import Executor, Use
from limpet.host.files import number
from limpet.host.marks import MARK, ZYGOTE

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MARKED = f"{MARK}=".encode()
# Of an environment, more than anybody has; a buffer of that size for each number would cost more
# than to read it.
_LONG_BYTES, _SHORT_BYTES = 1 << 20, 4096
# The parent of the kernel's own threads.
_KERNEL = 2


class Uses(NamedTuple):
    """`executors`: of workers, and commands that hold a permit. `sessions`: what is their own of
    each, which is less than what its executors add up to: memory counts where it is held apart.
    """

    executors: tuple[Executor, ...]
    sessions: dict[str, Use]


# Of an executor, by its process id; or of a whole session, where no tick is lost when one ends.
_Counted: TypeAlias = tuple[str, int | None]


class _Place(NamedTuple):
    """Where a process belongs: its session, and which process below the session's first it is
    below, or is itself; None for the first.
    """

    session: str
    branch: int | None


class _Stat(NamedTuple):
    """What the kernel counts for a process: of its ended children too, so that nothing is lost."""

    name: str
    ticks: int
    resident: int
    image: tuple[bytes, bytes]


class SessionTrees:
    """Looks once a second; who belongs where is asked of each process when it appears."""

    def __init__(self, root: str = "/") -> None:
        self._proc = os.path.join(root, "proc")
        self._parents: dict[int, int] = {}
        self._places: dict[int, _Place | None] = {}
        self._new: frozenset[int] = frozenset()
        self._ticks: dict[_Counted, int] = {}
        self._at: int | None = None

    def sample(self, boot_microseconds: int) -> Uses:
        """What they use now; CPU is that since the last call."""
        self._look()
        mine = {pid: place for pid, place in self._places.items() if place is not None}
        stats = {pid: stat for pid in mine if (stat := self._stat(pid)) is not None}
        executor_of = self._executors(mine, stats)
        ticks: dict[_Counted, int] = {}
        memory: dict[_Counted, int] = {}
        for pid, stat in stats.items():
            session, executor = mine[pid].session, executor_of[pid]
            for key in {(session, executor), (session, None)}:
                ticks[key] = ticks.get(key, 0) + stat.ticks
            memory.setdefault((session, None), 0)
            if executor is not None:
                key = (session, executor)
                memory[key] = memory.get(key, 0) + stat.resident
                memory[session, None] += self._own_bytes(pid, stat, stats)
        cpu = self._percent(ticks, boot_microseconds)
        return Uses(
            tuple(
                Executor(session, pid, round(cpu[session, pid], 1), memory[session, pid])
                for session, pid in memory
                if pid is not None
            ),
            {
                session: Use(cpu[session, None], held)
                for (session, pid), held in memory.items()
                if pid is None
            },
        )

    @staticmethod
    def _executors(mine: dict[int, _Place], stats: dict[int, _Stat]) -> dict[int, int | None]:
        """Pid → the executor that it belongs to: a child of a zygote, or a command that holds a
        permit; None for a zygote, which holds what its executors began with.
        """
        firsts = {place.session: pid for pid, place in mine.items() if place.branch is None}
        zygotes = {
            mine[pid].session
            for pid, stat in stats.items()
            if mine[pid].branch is None and stat.name == ZYGOTE
        }
        return {
            pid: place.branch if place.session in zygotes else firsts.get(place.session, pid)
            for pid, place in mine.items()
        }

    def _percent(self, ticks: "dict[_Counted, int]", now: int) -> "dict[_Counted, float]":
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

    def _place(self, pid: int, alive: Iterable[int]) -> _Place | None:
        if pid in self._places or pid not in alive:
            return self._places.get(pid)
        self._places[pid] = None  # should they go round in a circle, as in a tree that changes
        fields = self._fields(pid)[1]
        parent = self._parents[pid] = (number(fields[1]) or 0) if len(fields) > 1 else 0
        if parent in (0, _KERNEL):
            above, session = None, self._mark(pid) if parent == 0 else None
        else:
            above = self._place(parent, alive)
            session = self._mark(pid) or (above.session if above else None)
        place = None
        if session is not None:
            inside = above is not None and above.session == session
            place = _Place(session, (above.branch or pid) if inside and above else None)
        self._places[pid] = place
        return place

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
        if len(fields) < 22:
            return None
        spent = sum(number(each) or 0 for each in fields[11:15])
        image = (fields[23], fields[25]) if len(fields) > 25 else (b"0", b"0")
        return _Stat(name, spent, (number(fields[21]) or 0) * _PAGE_BYTES, image)

    def _own_bytes(self, pid: int, stat: _Stat, stats: dict[int, _Stat]) -> int:
        """What is held by this process alone, at the least.

        Not what caches files. A child that was forked and became no other program began with all
        that its parent had, and nobody can tell cheaply how much of it they still share: so only
        what it has more than that counts. Where code and stack begin is drawn by lot for each
        program, so they are the same in both.
        """
        held = self._anonymous(pid)
        parent = self._parents.get(pid, 0)
        above = stats.get(parent)
        if above is not None and above.image == stat.image:
            held -= self._anonymous(parent)
        return max(0, held)

    def _anonymous(self, pid: int) -> int:
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
