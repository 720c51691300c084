"""The hosts of a store as plain data: what each carries, and what it has given away."""

from limpet.domain.clock import Clock, SystemClock
from limpet.host.wire import published_of
from limpet.ops.gate import Given, all_given, given_record, look_record, told_by
from limpet.ops.record import Record, iso
from limpet.storage.gating import GateVerbs, Host


def list_hosts(store: GateVerbs, clock: Clock | None = None) -> list[Record]:
    """Every host that a monitor tells of or that has given permits, by server."""
    clock = clock or SystemClock()
    told = {each.server: each for each in store.hosts()}
    given = all_given(store.permits(), store.reservations())
    return [
        _record(server, told.get(server), given.get(server, Given()), clock)
        for server in sorted({*told, *given})
    ]


def _record(server: str, host: Host | None, given: Given, clock: Clock) -> Record:
    """`monitor`: the worker that measures; `ready` is None where nobody does."""
    published = None if host is None else published_of(host.body)
    look = None if host is None else told_by(host, clock)
    if host is None or published is None or look is None:
        reason = f"no monitor tells of {server}: only reservations count"
        unknown = {"monitor": None, "age_seconds": None, "ready": None, "reason": reason}
        return {"server": server, **unknown, **given_record(given)}
    return {
        "server": server,
        "monitor": published.worker,
        "session": published.session,
        "age_seconds": round(max(0, clock.wall() - host.at) / 1e6, 3),
        "at": iso(host.at),
        **look_record(look, given, clock.wall()),
        **given_record(given),
    }
