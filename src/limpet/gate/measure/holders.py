"""Tells what the holders of permits use from what all others do.

What a holder has declared is counted by the store, from the moment it is admitted to the moment it
is gone. Were its use counted as measured too, it would count twice; and since an average falls
slowly, what has ended would keep the next one off for a while. So what is measured of each holder,
up to what it has declared, is taken out of what is measured of the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from limpet.domain.load import USUAL_SMOOTHING, Load, Smoothing, loaded
from limpet.domain.permit import PermitRecord
from limpet.domain.reading import Reading, Use
from limpet.gate.measure.trees import Tree, Trees
from limpet.host.marks import LOOP, lane_with


class Holders:
    """For one monitor, which tells it of each reading.

    A job in a lane has that to itself, which is called after it meanwhile. Those in a loop share
    it, with each other and with light jobs: they count together. A command is a tree of its own,
    a program with a permit is measured by `Callers`.
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
        """The reading with what belongs to others, where all the holders can be seen.

        `seen` and `callers` (by session): measured with the reading. `permits`: those of the host
        right after it.
        """
        callers = callers or {}
        before, self._before = self._before, {each.holder: each for each in permits}
        names, self._names = self._names, {each.pid: each.name for each in seen.trees}
        self._note_bases(seen.trees)
        if reading.cpu_raw is None:
            return reading
        # Over the whole second: with those that have ended in it.
        during = {**before, **self._before}.values()
        raw = max(0.0, reading.cpu_raw - self._cpu(during, seen, names, callers, reading.cores))
        self._others = loaded(self._others, raw, reading.cores, self._smoothing)
        # What a command begins with its permit shows in the next reading only.
        asked = {each.session for each in permits if each.holder in before}
        if not asked <= seen.sessions | callers.keys():
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
        """What holders used of what they declared, in percent; a heavy one has the whole host."""
        left = {
            each.holder: (each, 100 * (cores if each.weight.heavy else each.weight.cpu))
            for each in permits
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
            (each.session, lane_with(each.holder)): each.holder for each, _ in left.values()
        }
        placed = set()
        for tree in seen.trees:
            found = [
                in_lanes[tree.session, name]
                for name in {tree.name, names.get(tree.pid, "")}
                if (tree.session, name) in in_lanes
            ]
            found += [tree.session] * (tree.session in left)
            take(tree.cpu, found)
            placed.update(found)
        for session, use in callers.items():
            take(use.cpu, [session] * (session in left))
        gone = {holder for holder in left if holder not in self._before}
        for session, cpu in seen.ended.items():
            take(cpu, [each for each in gone if left[each][0].session == session])
        for tree in seen.trees:
            if tree.name == LOOP:
                of_loop = (
                    holder
                    for holder, (permit, _) in left.items()
                    if permit.session == tree.session and holder not in placed
                )
                take(tree.cpu, list(of_loop))
        return held

    def _memory(
        self, permits: Sequence[PermitRecord], trees: Iterable[Tree], callers: Mapping[str, Use]
    ) -> int:
        """How much of what the holders declared they have taken by now."""
        held = 0
        waiting: dict[str, int] = {}
        lanes = {(each.session, each.name): each for each in trees}
        commands = {each.session: each for each in trees}
        for each in permits:
            declared = each.weight.memory
            lane = lanes.get((each.session, lane_with(each.holder)))
            if each.is_callers and each.session in callers:
                held += min(callers[each.session].memory, declared)
            elif each.is_callers and each.session in commands:
                held += min(commands[each.session].own, declared)
            elif lane is not None:
                base = self._bases.get((lane.pid, lane.name), 0)
                held += min(max(0, lane.own - base), declared)
            else:
                waiting[each.session] = waiting.get(each.session, 0) + declared
        for (session, name), tree in lanes.items():
            if name == LOOP and session in waiting:
                base = self._bases.get((tree.pid, name), 0)
                held += min(max(0, tree.own - base), waiting[session])
        return held

    def _note_bases(self, trees: Iterable[Tree]) -> None:
        """What an executor held before it began with what it is called after now.

        A loop that has none with a permit begins anew at each look.
        """
        own, self._own = self._own, {}
        bases, self._bases = self._bases, {}
        busy = {each.session for each in self._before.values() if not each.is_callers}
        for tree in trees:
            self._own[tree.pid] = tree.own
            key = (tree.pid, tree.name)
            last = bases.get(key, own.get(tree.pid, 0))
            if tree.name == LOOP and tree.session not in busy:
                last = tree.own
            self._bases[key] = last
