"""The hosts of a store: what each carries, and what it has given away."""

import msgspec
from msgspec.structs import asdict, replace

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import HostNotFound
from limpet.domain.host import Host, Span
from limpet.domain.reading import Reading
from limpet.gate.gauge import GivenAway, all_given, given_by, published_look
from limpet.gate.published import published_of
from limpet.ops.gate import permits_of, reserved_for, status_of
from limpet.ops.host_answer import (
    ExecutorAnswer,
    HistoryAnswer,
    HostAnswer,
    MeasuredHost,
    SampleAnswer,
    UnmeasuredHost,
)
from limpet.ops.record import iso
from limpet.storage.contract.gating import GateVerbs
from limpet.storage.contract.store import Store

_VALUES = msgspec.json.Decoder(dict[str, float | None])


def list_hosts(store: GateVerbs, clock: Clock | None = None) -> list[HostAnswer]:
    """Every host that a monitor reports on or that has given permits, by server."""
    clock = clock or SystemClock()
    monitored = {host.server: host for host in store.hosts()}
    given = all_given(store.permits(), store.reservations())
    return [
        _host_answer(server, monitored.get(server), given.get(server, GivenAway()), clock)
        for server in sorted({*monitored, *given})
    ]


def show_host(store: Store, server: str, clock: Clock | None = None) -> HostAnswer:
    """One host, its history, and the workers of its executors; raises `HostNotFound`.

    A host that is gone still has its history.
    """
    monitored = next(iter(store.hosts(server)), None)
    given = given_by(store, server)
    history = HistoryAnswer(
        seconds=_samples(store, server, Span.SECOND), minutes=_samples(store, server, Span.MINUTE)
    )
    known = monitored is not None or given != GivenAway() or history.seconds or history.minutes
    if not known:
        raise HostNotFound(server)
    host = _host_answer(server, monitored, given, clock or SystemClock())
    names = {session.id: session.name for session in store.sessions()} if host.executors else {}
    executors = tuple(
        replace(executor, name=names.get(executor.session)) for executor in host.executors
    )
    return replace(host, executors=executors, history=history)


def _host_answer(server: str, host: Host | None, given: GivenAway, clock: Clock) -> HostAnswer:
    published = None if host is None else published_of(host.body)
    look = None if host is None else published_look(host, clock)
    if host is None or published is None or look is None:
        return UnmeasuredHost(
            server=server,
            reason=f"no monitor reports on {server}: only reservations count",
            permits=permits_of(given),
            reserved_for=reserved_for(given),
        )
    now = clock.wall()
    return MeasuredHost(
        **asdict(status_of(look, given, now, at=host.at)),
        monitor=published.worker,
        session=published.session,
        age_seconds=round(max(0, now - host.at) / 1e6, 3),
        executors=_executors(look.reading),
    )


def _executors(reading: Reading) -> tuple[ExecutorAnswer, ...]:
    return tuple(
        ExecutorAnswer(
            session=use.session, pid=use.pid, cpu_percent=use.cpu, memory_bytes=use.memory
        )
        for use in reading.executor_use
    )


def _samples(store: GateVerbs, server: str, span: Span) -> tuple[SampleAnswer, ...]:
    samples = []
    for sample in store.samples(server, span):
        try:
            values = _VALUES.decode(sample.body)
        except msgspec.MsgspecError:
            continue  # written by a version that has another format
        samples.append(
            SampleAnswer(
                at=iso(sample.at),
                cpu_percent=values.get("cpu"),
                memory_percent=values.get("memory"),
                pressure_percent=values.get("pressure"),
            )
        )
    return tuple(samples)
