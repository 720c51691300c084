"""Moves a store to another place: every job once, whatever ends the mover, and whenever.

The order is what makes it safe (see `limpet.storage.contract.relocation`): the target is closed,
the source is closed for all that is new, what runs comes to its end, the source is closed for
everything, the jobs are copied and counted; then the source is given up for ever, and only then the
target opens. Each step is one atomic write that may be said again, so a mover that is killed is
started again and goes on; two at a time do the same twice, which changes nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from msgspec import Struct

from limpet.domain.clock import SystemClock
from limpet.domain.duration import spoken
from limpet.domain.errors import InvalidOption, StoreBusy, StoreError, StoreNotMoved
from limpet.domain.ids import IdSource
from limpet.domain.plural import number_of
from limpet.storage.contract.answers import StoreInfo
from limpet.storage.contract.relocation import Manifest, MoveStage, Relocated, Relocation
from limpet.storage.contract.store import Store

_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far a move is: `running` jobs are waited for, or so many of all have arrived."""

    running: int
    arrived: int
    jobs: int


class Moved(Struct, frozen=True, kw_only=True):
    """What a move did, and how long it took; `already`: somebody had finished it before."""

    source: str
    target: str
    move: str
    jobs: int
    already: bool
    seconds: float


class MoveAborted(Struct, frozen=True, kw_only=True):
    """The store that was to be left; `aborted`: there was something to undo."""

    source: str
    aborted: bool


class Mover:
    """One move, from one store to another.

    `sweep` looks after the sessions of the source while running jobs are waited for; `tell` hears
    how far it is.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        sweep: Callable[[], object] = lambda: None,
        tell: Callable[[MoveProgress], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._sweep = sweep
        self._tell = tell

    def move(self, wait: timedelta) -> Moved:
        """Do it, or what is left of it; `wait`: how long running jobs may take to end."""
        began = time.monotonic()
        here, there = self._infos()
        left, come = self._source.relocation()[0], self._target.relocation()[0]
        self._refuse_strangers(here, there, left, come)
        if left is not None and left.stage is MoveStage.MOVED:
            return self._finish(here, there, left, come, began)
        move = self._begin(here, there, left, come)
        self._close(here, _record(move, MoveStage.CLOSING, there), wait)
        _must(self._source.relocation()[0], _record(move, MoveStage.CLOSED, there), here)
        manifest = self._source.manifest()
        self._carry(move, manifest)
        self._target.furnish(move, manifest)
        self._compare(here, there, manifest)
        gone = _record(move, MoveStage.MOVED, there)
        self._step(self._source, here, _record(move, MoveStage.CLOSED, there), gone)
        return self._finish(here, there, gone, self._target.relocation()[0], began)

    def abort(self) -> MoveAborted:
        """Open the source again and empty the target, as long as the target was not opened."""
        here, there = self._infos()
        left, come = self._source.relocation()[0], self._target.relocation()[0]
        self._refuse_strangers(here, there, left, come)
        undone = False
        # The target first, and nothing is removed from it yet: a mover that still goes on can then
        # neither fill nor open it. Whether it has given up the source already is looked at after.
        fills = come is not None and come.stage in (MoveStage.ARRIVING, MoveStage.EMPTYING)
        emptying = (
            _record(come.id, MoveStage.EMPTYING, here) if come is not None and fills else None
        )
        if emptying is not None and come != emptying:
            self._step(self._target, there, come, emptying)
        left, _ = self._source.relocation()
        if left is not None and left.stage is MoveStage.MOVED:
            if emptying is not None:
                self._step(
                    self._target, there, emptying, _record(left.id, MoveStage.ARRIVING, here)
                )
            raise StoreNotMoved(
                f"{here.url} was moved to {there.url} and cannot be opened again: jobs may have "
                f"run there. Run `limpet move` again to finish, or move back to an empty store."
            )
        if left is not None and left.stage in (MoveStage.CLOSING, MoveStage.CLOSED):
            self._step(self._source, here, left, None)
            undone = True
        if emptying is not None:
            while self._target.discard(emptying.id):
                pass
            self._target.discard(emptying.id)  # and what was counted
            self._step(self._target, there, emptying, None)
            undone = True
        return MoveAborted(source=here.url, aborted=undone)

    # -- whose move it is

    def _infos(self) -> tuple[StoreInfo, StoreInfo]:
        here, there = self._source.info(), _info_of_target(self._target)
        for each in (here, there):
            if each.in_process:
                raise InvalidOption(
                    f"{each.url} is in the memory of one process; there is nothing that could be "
                    f"moved from or to it. Name a file, or a server."
                )
        if here.epoch == there.epoch:
            raise InvalidOption(f"{here.url} and {there.url} are the same store; name another.")
        return here, there

    def _refuse_strangers(
        self,
        here: StoreInfo,
        there: StoreInfo,
        left: Relocation | None,
        come: Relocation | None,
    ) -> None:
        """Raise unless both sides, as far as they are in a move, are in this one."""
        if left is not None and left.stage in (MoveStage.ARRIVING, MoveStage.EMPTYING):
            raise StoreNotMoved(
                f"{here.url} is itself being filled from {left.place}; finish that move first."
            )
        leaves = left is not None and left.stage is not MoveStage.ARRIVED
        if left is not None and leaves and left.epoch != there.epoch:
            if left.stage is MoveStage.MOVED:
                raise StoreNotMoved(
                    f"{here.url} was moved to {left.place}; the jobs go on there. To take them to "
                    f"{there.url}, move them from that place."
                )
            raise StoreNotMoved(
                f"{here.url} is being moved to {left.place}, which is not {there.url}. Name that "
                f"place, or give the move up with `limpet move --abort` and both its URLs."
            )
        comes = come is not None and come.stage in (MoveStage.ARRIVING, MoveStage.EMPTYING)
        if come is not None and comes and come.epoch != here.epoch:
            raise StoreNotMoved(
                f"{there.url} is being filled from {come.place}, which is not {here.url}. Finish "
                f"that move, give it up with `limpet move --abort`, or name another target."
            )
        if come is not None and not comes and come.stage is not MoveStage.ARRIVED:
            word = "was moved" if come.stage is MoveStage.MOVED else "is being moved"
            raise StoreNotMoved(f"{there.url} {word} to {come.place}; name an empty store.")
        if left is not None and come is not None and leaves and left.id != come.id:
            raise StoreNotMoved(
                f"{here.url} and {there.url} are not in the same move. Give it up with `limpet "
                f"move --abort`, and begin anew with an empty target."
            )

    # -- the steps

    def _begin(
        self, here: StoreInfo, there: StoreInfo, left: Relocation | None, come: Relocation | None
    ) -> str:
        """Close the target, which must be empty, and name the move."""
        if come is not None and come.stage is MoveStage.ARRIVING:
            return come.id
        if come is not None and come.stage is MoveStage.EMPTYING:
            raise StoreNotMoved(
                f"{there.url} is being emptied, because this move was given up. Run `limpet move "
                f"--abort` with the same URLs to its end, then move again."
            )
        if left is not None and left.stage is not MoveStage.ARRIVED:
            raise StoreNotMoved(
                f"{there.url} has forgotten the move from {here.url}: it was given up, or made "
                f"anew. Run `limpet move --abort` with the same URLs, then move again."
            )
        if self._source.manifest().jobs == 0:
            raise InvalidOption(f"{here.url} has no jobs; check the URL, or use the other at once.")
        move = IdSource(SystemClock()).new()
        answer = self._target.relocate(come, _record(move, MoveStage.ARRIVING, here))
        if answer.jobs or answer.sessions:
            raise StoreNotMoved(
                f"{there.url} is in use: it has {number_of(answer.jobs, 'job')} and "
                f"{number_of(answer.sessions, 'worker')}. Move to an empty store, with no workers "
                f"on it."
            )
        if not answer.done:
            raise _changed(there)
        return move

    def _close(self, here: StoreInfo, closing: Relocation, wait: timedelta) -> None:
        """Let nothing new begin, wait for what runs, then close for everything."""
        until = time.monotonic() + wait.total_seconds()
        closed = Relocation(closing.id, MoveStage.CLOSED, closing.place, closing.epoch)
        was, _ = self._source.relocation()
        if was == closed:
            return
        if was != closing:
            self._step(self._source, here, was, closing)
        while not (answer := self._patiently(self._source, closing, closed, until)).done:
            if answer.now != closing:
                raise _changed(here)
            self._tell(MoveProgress(answer.running, 0, 0))
            if time.monotonic() > until:
                raise StoreNotMoved(
                    f"after {spoken(wait)} {here.url} still runs "
                    f"{number_of(answer.running, 'job')}. It stays closed for new ones: run the "
                    f"same command again to go on waiting (--wait), cancel them with `limpet job "
                    f"cancel`, or give up with --abort."
                )
            self._sweep()
            time.sleep(_LOOK_SECONDS)

    def _carry(self, move: str, manifest: Manifest) -> None:
        _, cursor = self._target.relocation()
        arrived = self._target.manifest().jobs if cursor else 0
        while True:
            self._tell(MoveProgress(0, arrived, manifest.jobs))
            cargo = self._source.cargo(cursor)
            if cargo.parcels:
                arrived += self._target.adopt(move, cargo)
            cursor = cargo.cursor
            if not cargo.more:
                break
        self._tell(MoveProgress(0, arrived, manifest.jobs))

    def _compare(self, here: StoreInfo, there: StoreInfo, sent: Manifest) -> None:
        arrived = self._target.manifest()
        same = (arrived.counts, arrived.paused, arrived.totals)
        if same != (sent.counts, sent.paused, sent.totals):
            raise StoreNotMoved(
                f"{there.url} has {arrived.jobs} of {number_of(sent.jobs, 'job')} of "
                f"{here.url}, or others; nothing was given up. Run `limpet fsck` on both, and "
                f"`limpet move --abort`."
            )

    def _finish(
        self,
        here: StoreInfo,
        there: StoreInfo,
        left: Relocation,
        come: Relocation | None,
        began: float,
    ) -> Moved:
        """Open the target, now that nothing can start at the source any more."""
        arrived = _record(left.id, MoveStage.ARRIVED, here)
        if come is None or come.id != left.id:
            raise StoreNotMoved(
                f"{here.url} was moved to {left.place}, which has forgotten it; restore a backup "
                f"of that store. The jobs as they were are still at {here.url}, to be read."
            )
        already = come == arrived
        if not already:
            self._step(self._target, there, come, arrived)
        return Moved(
            source=here.url,
            target=there.url,
            move=left.id,
            jobs=self._target.manifest().jobs,
            already=already,
            seconds=round(time.monotonic() - began, 3),
        )

    def _step(
        self, store: Store, info: StoreInfo, was: Relocation | None, wanted: Relocation | None
    ) -> None:
        until = time.monotonic() + 30
        if not self._patiently(store, was, wanted, until).done:
            raise _changed(info)

    @staticmethod
    def _patiently(
        store: Store, was: Relocation | None, wanted: Relocation | None, until: float
    ) -> Relocated:
        """A step; a store in which somebody's transaction is in the way is asked again."""
        while True:
            try:
                return store.relocate(was, wanted)
            except StoreBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_SECONDS)


def _record(move: str, stage: MoveStage, other: StoreInfo) -> Relocation:
    return Relocation(move, stage, other.url, other.epoch)


def _must(found: Relocation | None, wanted: Relocation, info: StoreInfo) -> None:
    if found != wanted:
        raise _changed(info)


def _changed(info: StoreInfo) -> StoreNotMoved:
    return StoreNotMoved(
        f"somebody else has changed what {info.url} is in meanwhile: another `limpet move` gave it "
        f"up or finished it. Run the command again to see."
    )


def _info_of_target(target: Store) -> StoreInfo:
    try:
        return target.info()
    except StoreError:
        target.migrate()  # it is made where there is none; what else is wrong is said again
        return target.info()
