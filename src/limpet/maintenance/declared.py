"""Puts the schedules that an app declares, and removes those that no worker declares any more."""

from collections.abc import Mapping
from dataclasses import replace

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.maintenance.cron import next_after
from limpet.storage.contract.store import Store
from limpet.storage.records.store_settings import SchedulePiece, read


class Declarer:
    """Declares the schedules in this worker's code of an app; `run` is called from time to time."""

    def __init__(
        self,
        store: Store,
        app: str,
        pieces: Mapping[str, str],
        *,
        removes: bool,
        clock: Clock | None = None,
    ) -> None:
        """`pieces`: the declared schedules, by id. `removes`: whether vanished ones are removed."""
        self._store = store
        self._app = app
        self._pieces = pieces
        self._removes = removes
        self._clock = clock or SystemClock()

    def begin(self) -> None:
        """Put the declared schedules, then `run`; the session that declares them is registered."""
        now = self._clock.wall()
        for id_, text in self._pieces.items():
            schedule = replace(read(SchedulePiece, text).schedule(id_), declared=self._app)
            first = next_after(schedule.timing, now)
            at = schedule.next_at if first is None else first
            self._store.put_schedule(replace(schedule, next_at=at))
        self.run()

    def run(self) -> None:
        """Remove schedules that the app once declared and no living session declares now.

        Another version of the app, which may run beside this one, keeps its schedules. Those of
        other apps, and those that were put at run time, stay too.
        """
        if not self._removes:
            return
        old = [
            schedule
            for schedule in self._store.schedules()
            if schedule.declared == self._app and schedule.id not in self._pieces
        ]
        if old and any("schedules" in session.unreadable for session in self._store.sessions()):
            return  # nobody knows what that session declares
        declared = self._declared() if old else frozenset()
        for schedule in old:
            if schedule.id in declared or not self._store.remove_schedule(schedule.id):
                continue
            # Another worker may have registered after we read the sessions, found its schedule in
            # the store, and put nothing; then we removed it. So we put it back. A worker that
            # registers from now on puts it itself.
            if schedule.id in self._declared():
                self._store.put_schedule(schedule)
            else:
                log.emit("schedule_vanished", schedule=schedule.id)

    def _declared(self) -> frozenset[str]:
        return frozenset().union(*(session.schedules for session in self._store.sessions()))
