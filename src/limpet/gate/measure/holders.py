"""Separates what the holders of permits use from what all others use.

The store counts what a holder has declared, from its admission until it is gone. If its measured
use counted too, the holder would count twice; and because an average falls slowly, a holder that
has ended would keep the next one off for a while. So the measured use of each holder, up to what it
has declared, is taken out of the measured use of the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from limpet.domain.load import USUAL_SMOOTHING, Load, Smoothing, loaded
from limpet.domain.permit import PermitRecord
from limpet.domain.reading import Reading, Use
from limpet.gate.measure.trees import Tree, Trees
from limpet.host.marks import LOOP, lane_with


class Holders:
    """The permit holders of a host, for the one monitor that passes every reading on to it.

    A job in a lane has the lane to itself, and the lane carries the job's name meanwhile. Jobs in a
    loop share it with each other and with light jobs, so they count together. A command is a tree
    of its own. A program with a permit is measured by `Callers`.
    """

    def __init__(self, smoothing: Smoothing = USUAL_SMOOTHING) -> None:
        self._smoothing = smoothing
        self._others: Load | None = None
        self._before: dict[str, PermitRecord] = {}
        self._names: dict[int, str] = {}
        self._own: dict[int, int] = {}
        self._bases: dict[tuple[int, str], int] = {}

    def apart(
        self,
        reading: Reading,
        seen: Trees,
        permits: Sequence[PermitRecord],
        callers: Mapping[str, Use] | None = None,
    ) -> Reading:
        """The reading, with the use of all others added where all permit holders can be seen.

        `seen` and `callers` (by session) were measured with the reading. `permits`: those of the
        host right after it.
        """
        callers = callers or {}
        before, self._before = self._before, {permit.holder: permit for permit in permits}
        names, self._names = self._names, {tree.pid: tree.name for tree in seen.trees}
        self._note_bases(seen.trees)
        if reading.cpu_raw is None:
            return reading
        # The reading is of a whole second, so holders that ended during it count too.
        during = {**before, **self._before}.values()
        raw = max(0.0, reading.cpu_raw - self._cpu(during, seen, names, callers, reading.cores))
        self._others = loaded(self._others, raw, reading.cores, self._smoothing)
        # A command that has just begun with its permit shows in the next reading only.
        expected = {permit.session for permit in permits if permit.holder in before}
        if not expected <= seen.sessions | callers.keys():
            return reading
        return replace(
            reading,
            cpu_others=round(self._others.effective, 2),
            memory_held=self._memory(permits, seen.trees, callers),
        )

    def _cpu(
        self,
        permits: Iterable[PermitRecord],
        seen: Trees,
        names: Mapping[int, str],
        callers: Mapping[str, Use],
        cores: float,
    ) -> float:
        """The CPU that holders used, each up to what it declared, in percent of a core; a heavy
        holder counts as having declared the whole host.
        """
        left = {
            permit.holder: (permit, 100 * (cores if permit.weight.heavy else permit.weight.cpu))
            for permit in permits
        }
        held = 0.0

        def take(used: float, holders: Iterable[str]) -> None:
            nonlocal held
            for holder in holders:
                permit, most = left[holder]
                taken = min(used, most)
                left[holder] = permit, most - taken
                used, held = used - taken, held + taken

        in_lanes = {
            (permit.session, lane_with(permit.holder)): permit.holder for permit, _ in left.values()
        }
        placed = set()
        for tree in seen.trees:
            found = [
                in_lanes[tree.session, name]
                for name in {tree.name, names.get(tree.pid, "")}
                if (tree.session, name) in in_lanes
            ]
            found += [tree.session] * (tree.session in left)
            take(tree.cpu_percent, found)
            placed.update(found)
        for session, use in callers.items():
            take(use.cpu, [session] * (session in left))
        gone = {holder for holder in left if holder not in self._before}
        for session, cpu in seen.ended.items():
            take(cpu, [holder for holder in gone if left[holder][0].session == session])
        for tree in seen.trees:
            if tree.name == LOOP:
                of_loop = (
                    holder
                    for holder, (permit, _) in left.items()
                    if permit.session == tree.session and holder not in placed
                )
                take(tree.cpu_percent, list(of_loop))
        return held

    def _memory(
        self, permits: Sequence[PermitRecord], trees: Iterable[Tree], callers: Mapping[str, Use]
    ) -> int:
        """The bytes that holders have taken by now, each up to what it declared."""
        held = 0
        in_loops: dict[str, int] = {}
        executors = {(tree.session, tree.name): tree for tree in trees}
        commands = {tree.session: tree for tree in trees}
        for permit in permits:
            declared = permit.weight.memory
            lane = executors.get((permit.session, lane_with(permit.holder)))
            if permit.is_callers and permit.session in callers:
                held += min(callers[permit.session].memory, declared)
            elif permit.is_callers and permit.session in commands:
                held += min(commands[permit.session].own_bytes, declared)
            elif lane is not None:
                base = self._bases.get((lane.pid, lane.name), 0)
                held += min(max(0, lane.own_bytes - base), declared)
            else:
                in_loops[permit.session] = in_loops.get(permit.session, 0) + declared
        for (session, name), tree in executors.items():
            if name == LOOP and session in in_loops:
                base = self._bases.get((tree.pid, name), 0)
                held += min(max(0, tree.own_bytes - base), in_loops[session])
        return held

    def _note_bases(self, trees: Iterable[Tree]) -> None:
        """Note how many bytes each executor held before it began the job whose name it carries.

        A loop that runs no job with a permit gets a new base at each look.
        """
        own, self._own = self._own, {}
        bases, self._bases = self._bases, {}
        busy = {permit.session for permit in self._before.values() if not permit.is_callers}
        for tree in trees:
            self._own[tree.pid] = tree.own_bytes
            key = (tree.pid, tree.name)
            last = bases.get(key, own.get(tree.pid, 0))
            if tree.name == LOOP and tree.session not in busy:
                last = tree.own_bytes
            self._bases[key] = last
