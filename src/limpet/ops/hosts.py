"""The hosts of a store as plain data: what each carries, and what it has given away."""

import msgspec

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import HostNotFound
from limpet.domain.host import Host, Span
from limpet.domain.reading import Reading
from limpet.host.wire import published_of
from limpet.ops.gate import Given, all_given, given_by, given_record, look_record, told_by
from limpet.ops.record import Record, iso
from limpet.storage.base import Store
from limpet.storage.gating import GateVerbs

_VALUES = msgspec.json.Decoder(dict[str, float | None])
_KEPT = ("cpu", "memory", "pressure")


def list_hosts(store: GateVerbs, clock: Clock | None = None) -> list[Record]:
    """Every host that a monitor tells of or that has given permits, by server."""
    clock = clock or SystemClock()
    told = {each.server: each for each in store.hosts()}
    given = all_given(store.permits(), store.reservations())
    return [
        _record(server, told.get(server), given.get(server, Given()), clock)
        for server in sorted({*told, *given})
    ]


def show_host(store: Store, server: str, clock: Clock | None = None) -> Record:
    """One host, and how it has been doing; raises `HostNotFound`.

    `history`: `seconds` of the last 15 minutes and `minutes` of the last 7 days, each with `at`,
    and in percent `cpu`, `memory` and `pressure`, None where that was not known. `executors` have
    the name of the worker, or of the caller, whose they are. One that is gone has its history.
    """
    told = next(iter(store.hosts(server)), None)
    given = given_by(store, server)
    history = {
        "seconds": _samples(store, server, Span.SECOND),
        "minutes": _samples(store, server, Span.MINUTE),
    }
    if told is None and given == Given() and not any(history.values()):
        raise HostNotFound(server)
    record = _record(server, told, given, clock or SystemClock())
    names = {each.id: each.name for each in store.sessions()} if record["executors"] else {}
    for each in record["executors"]:
        each["name"] = names.get(each["session"])
    return {**record, "history": history}


def _record(server: str, host: Host | None, given: Given, clock: Clock) -> Record:
    """`monitor`: the worker that measures; `ready` is None where nobody does."""
    published = None if host is None else published_of(host.body)
    look = None if host is None else told_by(host, clock)
    if host is None or published is None or look is None:
        reason = f"no monitor tells of {server}: only reservations count"
        unknown = {"monitor": None, "age_seconds": None, "ready": None, "reason": reason}
        return {"server": server, **unknown, "executors": [], **given_record(given)}
    return {
        "server": server,
        "monitor": published.worker,
        "session": published.session,
        "age_seconds": round(max(0, clock.wall() - host.at) / 1e6, 3),
        "at": iso(host.at),
        **look_record(look, given, clock.wall()),
        "executors": _executors(look.reading),
        **given_record(given),
    }


def _executors(reading: Reading) -> list[Record]:
    """What each uses: CPU in percent of one core, memory in bytes."""
    return [
        {"session": each.session, "pid": each.pid, "cpu": each.cpu, "memory": each.memory}
        for each in reading.executor_use
    ]


def _samples(store: GateVerbs, server: str, span: Span) -> list[Record]:
    samples = []
    for each in store.samples(server, span):
        try:
            values = _VALUES.decode(each.body)
        except msgspec.MsgspecError:
            continue  # what a version wrote that means something else by it
        samples.append({"at": iso(each.at), **{name: values.get(name) for name in _KEPT}})
    return samples
