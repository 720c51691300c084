"""The hosts of a store as plain data: what each carries, and what it has given away."""

from limpet.domain.assessment import Capacity
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.permit import Permit
from limpet.host.gate import LIFETIME_MICROSECONDS, assess
from limpet.host.here import Here
from limpet.host.wire import reading_of
from limpet.ops.gate import LEAST, permit_record, reading_record, threshold_record, waits_for
from limpet.ops.record import Record, iso
from limpet.storage.gating import GateVerbs, Host


def list_hosts(store: GateVerbs, here: Here, clock: Clock | None = None) -> list[Record]:
    """Every host that a monitor tells of or that has given permits, by server.

    `here`: whose thresholds are shown; those of other hosts are known to their workers alone.
    """
    now = (clock or SystemClock()).wall()
    told = {each.server: each for each in store.hosts()}
    permits: dict[str, list[Permit]] = {}
    for each in store.permits():
        permits.setdefault(each.server, []).append(each)
    reserved = {each.server: each.job for each in store.reservations()}
    return [
        {
            "server": server,
            **_told(store, told.get(server), Here(server, here.thresholds), now),
            "permits": [permit_record(each) for each in permits.get(server, ())],
            "reserved_for": reserved.get(server),
        }
        for server in sorted({*told, *permits, *reserved})
    ]


def _told(store: GateVerbs, host: Host | None, here: Here, now: int) -> Record:
    reading = None if host is None else reading_of(host.body)
    if host is None or reading is None:
        reason = f"no monitor tells of {here.server}: only reservations count"
        return {"monitor": "silent", "age_seconds": None, "ready": None, "reason": reason}
    # Of another machine's boot time nothing is known here; the store's own wall time must do.
    age = min(max(0, now - host.at), LIFETIME_MICROSECONDS - 1)
    capacity = Capacity(reading.cores, reading.memory_total)
    judged = assess(here.server, reading, capacity, reading.at_boot + age, here.thresholds)
    waiting = waits_for(store, judged, LEAST, now)
    return {
        "monitor": "live",
        "age_seconds": round(age / 1e6, 3),
        "at": iso(host.at),
        "ready": waiting is None,
        "reason": "" if waiting is None else waiting.reason,
        "warning": judged.warning,
        **reading_record(reading),
        "room": {"cpu": judged.room.cpu / 1000, "memory": judged.room.memory},
        "threshold": threshold_record(here),
        "source": reading.source,
    }
