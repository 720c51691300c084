"""The hosts of a store as plain data: what each carries, and what it has given away."""

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.permit import Permit
from limpet.host.wire import published_of
from limpet.ops.gate import (
    LEAST,
    permit_record,
    reading_record,
    threshold_record,
    told_by,
    waits_for,
)
from limpet.ops.record import Record, iso
from limpet.storage.gating import GateVerbs, Host


def list_hosts(store: GateVerbs, clock: Clock | None = None) -> list[Record]:
    """Every host that a monitor tells of or that has given permits, by server."""
    clock = clock or SystemClock()
    told = {each.server: each for each in store.hosts()}
    permits: dict[str, list[Permit]] = {}
    for each in store.permits():
        permits.setdefault(each.server, []).append(each)
    reserved = {each.server: each.caller or each.holder for each in store.reservations()}
    return [
        {
            "server": server,
            **_told(store, server, told.get(server), clock),
            "permits": [permit_record(each) for each in permits.get(server, ())],
            "reserved_for": reserved.get(server),
        }
        for server in sorted({*told, *permits, *reserved})
    ]


def _told(store: GateVerbs, server: str, host: Host | None, clock: Clock) -> Record:
    """`monitor`: the worker that measures; `ready` is None where nobody does."""
    published = None if host is None else published_of(host.body)
    look = None if host is None else told_by(host, clock)
    if host is None or published is None or look is None:
        reason = f"no monitor tells of {server}: only reservations count"
        return {"monitor": None, "age_seconds": None, "ready": None, "reason": reason}
    waiting = waits_for(store, look.assessment, LEAST, clock.wall())
    room = look.assessment.room
    return {
        "monitor": published.worker,
        "session": published.session,
        "age_seconds": round(max(0, clock.wall() - host.at) / 1e6, 3),
        "at": iso(host.at),
        "ready": waiting is None,
        "reason": "" if waiting is None else waiting.reason,
        "warning": look.assessment.warning,
        **reading_record(look.reading),
        "room": {"cpu": room.cpu / 1000, "memory": room.memory},
        "threshold": threshold_record(look.thresholds),
        "source": look.source,
    }
