"""The hosts of a store as plain data: what each carries, and what it has given away."""

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.permit import Permit
from limpet.host.wire import assess_published, published_of
from limpet.ops.gate import LEAST, permit_record, reading_record, threshold_record, waits_for
from limpet.ops.record import Record, iso
from limpet.storage.boot import boot_id
from limpet.storage.gating import GateVerbs, Host


def list_hosts(store: GateVerbs, clock: Clock | None = None) -> list[Record]:
    """Every host that a monitor tells of or that has given permits, by server."""
    told = {each.server: each for each in store.hosts()}
    permits: dict[str, list[Permit]] = {}
    for each in store.permits():
        permits.setdefault(each.server, []).append(each)
    reserved = {each.server: each.job for each in store.reservations()}
    return [
        {
            "server": server,
            **_told(store, server, told.get(server), clock or SystemClock()),
            "permits": [permit_record(each) for each in permits.get(server, ())],
            "reserved_for": reserved.get(server),
        }
        for server in sorted({*told, *permits, *reserved})
    ]


def _told(store: GateVerbs, server: str, host: Host | None, clock: Clock) -> Record:
    now = clock.wall()
    said = None if host is None else published_of(host.body)
    judged = None if host is None else assess_published(host, now, boot_id(), clock.boot())
    if host is None or said is None or judged is None:
        reason = f"no monitor tells of {server}: only reservations count"
        return {"monitor": "silent", "age_seconds": None, "ready": None, "reason": reason}
    waiting = waits_for(store, judged, LEAST, now)
    return {
        "monitor": "live",
        "measured_by": said.worker,
        "age_seconds": round(max(0, now - host.at) / 1e6, 3),
        "at": iso(host.at),
        "ready": waiting is None,
        "reason": "" if waiting is None else waiting.reason,
        "warning": judged.warning,
        **reading_record(said.reading),
        "room": {"cpu": judged.room.cpu / 1000, "memory": judged.room.memory},
        "threshold": threshold_record(said.thresholds),
        "source": said.reading.source,
    }
