"""Puts the schedules that an app declares, and removes those that it no longer does."""

from collections.abc import Mapping
from dataclasses import replace

from limpet import log
from limpet.client.cron import next_after
from limpet.domain.clock import Clock, SystemClock
from limpet.storage.furniture import SchedulePiece, read
from limpet.storage.scheduling import ScheduleVerbs


def put_declared(
    store: ScheduleVerbs,
    app: str,
    pieces: Mapping[str, str],
    *,
    removes: bool,
    clock: Clock | None = None,
) -> None:
    """Put what the code of an app declares, by id; `removes`: what it declared before and does not
    any more goes. Those of other apps, and those that were put at run time, stay.
    """
    now = (clock or SystemClock()).wall()
    for id_, text in pieces.items():
        schedule = replace(read(SchedulePiece, text).schedule(id_), declared=app)
        first = next_after(schedule.timing, now)
        store.put_schedule(replace(schedule, next_at=schedule.next_at if first is None else first))
    if not removes:
        return
    for each in store.schedules():
        if each.declared == app and each.id not in pieces and store.remove_schedule(each.id):
            log.say("schedule_vanished", schedule=each.id)
