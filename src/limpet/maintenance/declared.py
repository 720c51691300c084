"""Puts the schedules that an app declares, and removes those that nobody declares any more."""

from collections.abc import Mapping
from dataclasses import replace

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.maintenance.cron import next_after
from limpet.storage.contract.store import Store
from limpet.storage.records.store_settings import SchedulePiece, read


class Declarer:
    """Of the schedules of one app, as the code of this worker has them; `run` is called from time
    to time.
    """

    def __init__(
        self,
        store: Store,
        app: str,
        pieces: Mapping[str, str],
        *,
        removes: bool,
        clock: Clock | None = None,
    ) -> None:
        """`pieces`: what is declared, by id. `removes`: whether what has vanished goes."""
        self._store = store
        self._app = app
        self._pieces = pieces
        self._removes = removes
        self._clock = clock or SystemClock()

    def begin(self) -> None:
        """Put what is declared, once the session that declares it is registered, then `run`."""
        now = self._clock.wall()
        for id_, text in self._pieces.items():
            schedule = replace(read(SchedulePiece, text).schedule(id_), declared=self._app)
            first = next_after(schedule.timing, now)
            at = schedule.next_at if first is None else first
            self._store.put_schedule(replace(schedule, next_at=at))
        self.run()

    def run(self) -> None:
        """Remove what the app declared once and no session that is not dead declares now: another
        version of the app may run beside this one. Those of other apps, and those that were put
        at run time, stay.
        """
        if not self._removes:
            return
        old = [
            each
            for each in self._store.schedules()
            if each.declared == self._app and each.id not in self._pieces
        ]
        if old and any("schedules" in each.unreadable for each in self._store.sessions()):
            return  # nobody knows what that session declares
        declared = self._declared() if old else frozenset()
        for each in old:
            if each.id in declared or not self._store.remove_schedule(each.id):
                continue
            # A worker that registered after the sessions were read may have found its schedule
            # there, put nothing, and lost it to us: it gets it back. One that registers from now
            # on puts it itself.
            if each.id in self._declared():
                self._store.put_schedule(each)
            else:
                log.emit("schedule_vanished", schedule=each.id)

    def _declared(self) -> frozenset[str]:
        return frozenset().union(*(each.schedules for each in self._store.sessions()))
