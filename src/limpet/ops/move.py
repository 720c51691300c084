"""Moves a store to another place: every job arrives once, whatever ends the mover, and whenever.

The order of the steps makes this safe (see `limpet.storage.contract.relocation`). The target is
closed. The source is closed for new jobs, running jobs end, and the source is closed for
everything. The jobs are copied and counted. Then the source is given up for ever, and only then
does the target open. Each step is one atomic write that may be repeated, so a mover that was killed
can be started again and goes on; two movers at a time do the same twice, which changes nothing.
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
    """How far a move is: `running` jobs are still to end, or `arrived` of `jobs` have come."""

    running: int
    arrived: int
    jobs: int


class Moved(Struct, frozen=True, kw_only=True):
    """What a move did, and how long it took; `already`: it had been finished before."""

    source: str
    target: str
    move: str
    jobs: int
    already: bool
    seconds: float


class MoveAborted(Struct, frozen=True, kw_only=True):
    """The store that was to be moved; `aborted`: there was something to undo."""

    source: str
    aborted: bool


class Mover:
    """One move, from one store to another.

    `sweep` looks after the sessions of the source while the mover waits for running jobs.
    `on_progress` is called with how far the move is.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        sweep: Callable[[], object] = lambda: None,
        on_progress: Callable[[MoveProgress], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._sweep = sweep
        self._on_progress = on_progress

    def move(self, wait: timedelta) -> Moved:
        """Do the move, or the rest of one; `wait`: how long running jobs may take to end."""
        began = time.monotonic()
        here, there = self._infos()
        outgoing, incoming = self._source.relocation()[0], self._target.relocation()[0]
        self._refuse_strangers(here, there, outgoing, incoming)
        if outgoing is not None and outgoing.stage is MoveStage.MOVED:
            return self._finish(here, there, outgoing, incoming, began)
        move = self._begin(here, there, outgoing, incoming)
        self._close(here, _record(move, MoveStage.CLOSING, there), wait)
        _require(self._source.relocation()[0], _record(move, MoveStage.CLOSED, there), here)
        manifest = self._source.manifest()
        self._carry(move, manifest)
        self._target.furnish(move, manifest)
        self._compare(here, there, manifest)
        moved = _record(move, MoveStage.MOVED, there)
        self._step(self._source, here, _record(move, MoveStage.CLOSED, there), moved)
        return self._finish(here, there, moved, self._target.relocation()[0], began)

    def abort(self) -> MoveAborted:
        """Open the source again and empty the target, unless the source was already given up."""
        here, there = self._infos()
        outgoing, incoming = self._source.relocation()[0], self._target.relocation()[0]
        self._refuse_strangers(here, there, outgoing, incoming)
        undone = False
        # First the target is marked as emptying, and nothing is removed yet: a mover that still
        # runs can then neither fill nor open it. Only after that is it safe to read whether that
        # mover has already given up the source.
        is_filling = incoming is not None and incoming.stage in (
            MoveStage.ARRIVING,
            MoveStage.EMPTYING,
        )
        emptying = (
            _record(incoming.id, MoveStage.EMPTYING, here)
            if incoming is not None and is_filling
            else None
        )
        if emptying is not None and incoming != emptying:
            self._step(self._target, there, incoming, emptying)
        outgoing, _ = self._source.relocation()
        if outgoing is not None and outgoing.stage is MoveStage.MOVED:
            if emptying is not None:
                self._step(
                    self._target, there, emptying, _record(outgoing.id, MoveStage.ARRIVING, here)
                )
            raise StoreNotMoved(
                f"{here.url} was moved to {there.url} and cannot be opened again: jobs may have "
                f"run there. Run `limpet move` again to finish, or move back to an empty store."
            )
        if outgoing is not None and outgoing.stage in (MoveStage.CLOSING, MoveStage.CLOSED):
            self._step(self._source, here, outgoing, None)
            undone = True
        if emptying is not None:
            while self._target.discard(emptying.id):
                pass
            self._target.discard(emptying.id)  # once more, for the counts
            self._step(self._target, there, emptying, None)
            undone = True
        return MoveAborted(source=here.url, aborted=undone)

    # -- whether both sides are in this move

    def _infos(self) -> tuple[StoreInfo, StoreInfo]:
        here, there = self._source.info(), _info_of_target(self._target)
        for info in (here, there):
            if info.in_process:
                raise InvalidOption(
                    f"{info.url} is a store in the memory of one process; jobs cannot be moved "
                    f"from or to it. Name a file, or a server."
                )
        if here.epoch == there.epoch:
            raise InvalidOption(f"{here.url} and {there.url} are the same store; name another.")
        return here, there

    def _refuse_strangers(
        self,
        here: StoreInfo,
        there: StoreInfo,
        outgoing: Relocation | None,
        incoming: Relocation | None,
    ) -> None:
        """Raise if one side is in another move than this one."""
        if outgoing is not None and outgoing.stage in (MoveStage.ARRIVING, MoveStage.EMPTYING):
            raise StoreNotMoved(
                f"{here.url} is itself being filled from {outgoing.place}; finish that move first."
            )
        is_leaving = outgoing is not None and outgoing.stage is not MoveStage.ARRIVED
        if outgoing is not None and is_leaving and outgoing.epoch != there.epoch:
            if outgoing.stage is MoveStage.MOVED:
                raise StoreNotMoved(
                    f"{here.url} was moved to {outgoing.place}, and its jobs run there now. To "
                    f"take them to {there.url}, move them from that place."
                )
            raise StoreNotMoved(
                f"{here.url} is being moved to {outgoing.place}, not to {there.url}. Name that "
                f"place, or give the move up with `limpet move --abort` and both its URLs."
            )
        is_arriving = incoming is not None and incoming.stage in (
            MoveStage.ARRIVING,
            MoveStage.EMPTYING,
        )
        if incoming is not None and is_arriving and incoming.epoch != here.epoch:
            raise StoreNotMoved(
                f"{there.url} is being filled from {incoming.place}, not from {here.url}. Finish "
                f"that move, give it up with `limpet move --abort`, or name another target."
            )
        if incoming is not None and not is_arriving and incoming.stage is not MoveStage.ARRIVED:
            word = "was moved" if incoming.stage is MoveStage.MOVED else "is being moved"
            raise StoreNotMoved(f"{there.url} {word} to {incoming.place}; name an empty store.")
        if (
            outgoing is not None
            and incoming is not None
            and is_leaving
            and outgoing.id != incoming.id
        ):
            raise StoreNotMoved(
                f"{here.url} and {there.url} are in different moves. Give this one up with "
                f"`limpet move --abort`, and begin anew with an empty target."
            )

    # -- the steps

    def _begin(
        self,
        here: StoreInfo,
        there: StoreInfo,
        outgoing: Relocation | None,
        incoming: Relocation | None,
    ) -> str:
        """Close the target, which must be empty, and name the move."""
        if incoming is not None and incoming.stage is MoveStage.ARRIVING:
            return incoming.id
        if incoming is not None and incoming.stage is MoveStage.EMPTYING:
            raise StoreNotMoved(
                f"{there.url} is being emptied, because this move was given up. Run `limpet move "
                f"--abort` with the same URLs to its end, then move again."
            )
        if outgoing is not None and outgoing.stage is not MoveStage.ARRIVED:
            raise StoreNotMoved(
                f"{there.url} has no record of the move from {here.url}: the move was given up, or "
                f"the store made anew. Run `limpet move --abort` with the same URLs, then move "
                f"again."
            )
        if self._source.manifest().jobs == 0:
            raise InvalidOption(
                f"{here.url} has no jobs to move. Check the URL, or use {there.url} right away."
            )
        move = IdSource(SystemClock()).new()
        answer = self._target.relocate(incoming, _record(move, MoveStage.ARRIVING, here))
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
        """Close the source for new jobs, wait for running ones, then close it for everything."""
        until = time.monotonic() + wait.total_seconds()
        closed = Relocation(closing.id, MoveStage.CLOSED, closing.place, closing.epoch)
        before, _ = self._source.relocation()
        if before == closed:
            return
        if before != closing:
            self._step(self._source, here, before, closing)
        while not (answer := self._relocate(self._source, closing, closed, until)).done:
            if answer.now != closing:
                raise _changed(here)
            self._on_progress(MoveProgress(answer.running, 0, 0))
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
            self._on_progress(MoveProgress(0, arrived, manifest.jobs))
            cargo = self._source.cargo(cursor)
            if cargo.parcels:
                arrived += self._target.adopt(move, cargo)
            cursor = cargo.cursor
            if not cargo.more:
                break
        self._on_progress(MoveProgress(0, arrived, manifest.jobs))

    def _compare(self, here: StoreInfo, there: StoreInfo, sent: Manifest) -> None:
        arrived = self._target.manifest()
        same = (arrived.counts, arrived.paused, arrived.totals)
        if same != (sent.counts, sent.paused, sent.totals):
            raise StoreNotMoved(
                f"{there.url} has {arrived.jobs} of {number_of(sent.jobs, 'job')} of "
                f"{here.url}, or other jobs; nothing was given up. Run `limpet fsck` on both "
                f"stores, then `limpet move --abort`."
            )

    def _finish(
        self,
        here: StoreInfo,
        there: StoreInfo,
        outgoing: Relocation,
        incoming: Relocation | None,
        began: float,
    ) -> Moved:
        """Open the target, now that no job can start at the source any more."""
        arrived = _record(outgoing.id, MoveStage.ARRIVED, here)
        if incoming is None or incoming.id != outgoing.id:
            raise StoreNotMoved(
                f"{here.url} was moved to {outgoing.place}, but {there.url} has no record of the "
                f"move; restore a backup of that store. {here.url} still has the jobs as they were "
                f"before, to be read."
            )
        already = incoming == arrived
        if not already:
            self._step(self._target, there, incoming, arrived)
        return Moved(
            source=here.url,
            target=there.url,
            move=outgoing.id,
            jobs=self._target.manifest().jobs,
            already=already,
            seconds=round(time.monotonic() - began, 3),
        )

    def _step(
        self, store: Store, info: StoreInfo, before: Relocation | None, wanted: Relocation | None
    ) -> None:
        until = time.monotonic() + 30
        if not self._relocate(store, before, wanted, until).done:
            raise _changed(info)

    @staticmethod
    def _relocate(
        store: Store, before: Relocation | None, wanted: Relocation | None, until: float
    ) -> Relocated:
        """Do a step, and repeat it while another transaction keeps the store busy."""
        while True:
            try:
                return store.relocate(before, wanted)
            except StoreBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_SECONDS)


def _record(move: str, stage: MoveStage, other: StoreInfo) -> Relocation:
    return Relocation(move, stage, other.url, other.epoch)


def _require(found: Relocation | None, wanted: Relocation, info: StoreInfo) -> None:
    if found != wanted:
        raise _changed(info)


def _changed(info: StoreInfo) -> StoreNotMoved:
    return StoreNotMoved(
        f"the move of {info.url} was changed meanwhile: another `limpet move` gave it up or "
        f"finished it. Run the command again to see how it stands."
    )


def _info_of_target(target: Store) -> StoreInfo:
    try:
        return target.info()
    except StoreError:
        target.migrate()  # makes the store if there is none; any other error is raised again
        return target.info()
