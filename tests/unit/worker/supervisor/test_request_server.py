"""The server of requests as it is in a supervisor, on a store of its own: who may ask for what."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.request_values import NONSENSE, sent, spoilt

from limpet.domain.clock import SystemClock
from limpet.domain.errors import JobNotFound, LeaseLost, StoreUnavailable
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, Pool, Store, Want
from limpet.storage.registry import open_store
from limpet.worker.supervisor import request_server
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.request_server import RequestServer
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import Defect, SessionParts
from limpet.worker.supervisor.store_line import StoreLine
from limpet.worker.wire import page
from limpet.worker.wire.frames import HEADER_BYTES, header, size_after
from limpet.worker.wire.plan import Plan
from limpet.worker.wire.request_answers import read_answer
from limpet.worker.wire.request_bounds import LARGEST_REQUEST_BYTES
from limpet.worker.wire.task_requests import (
    REQUESTS,
    CancelRequest,
    CommitRequest,
    EnqueueRequest,
    InfoRequest,
    Request,
    StageRequest,
    request_bytes,
)

LONG = 20 if os.environ.get("LIMPET_TEST_LONG") else 1
IDS = IdSource(SystemClock())
KINDS = [REQUESTS[verb] for verb in sorted(REQUESTS)]
T = TypeVar("T")


def job() -> NewJob:
    return NewJob(IDS.new(), "add", "{}")


class Asker:
    """An executor's end of the socket, and what the supervisor says of the executor."""

    def __init__(self, server: RequestServer) -> None:
        self.request_socket, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.blamed: list[Exception] = []
        server.open(self)

    def not_understood(self, error: Exception) -> None:
        self.blamed.append(error)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.theirs, data)

    async def ask(self, request: Request) -> Any:
        body = request_bytes(request)
        await self.send(header(len(body)) + body)
        return read_answer(type(request), await self.answer())

    async def answer(self) -> bytes:
        return await self.exactly(size_after(await self.exactly(HEADER_BYTES)))

    async def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = await asyncio.get_running_loop().sock_recv(self.theirs, size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    async def until_over(self) -> None:
        """Read on until the supervisor has hung up."""
        try:
            while True:
                await self.answer()
        except (EOFError, ConnectionError):
            pass

    def close(self) -> None:
        self.theirs.close()
        self.request_socket.close()


class Supervisor:
    """The parts of one that serve requests, with a session that holds one job."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.session = IDS.new()
        new = NewSession(self.session, SessionKind.WORKER, "w", "h", 1, tasks=frozenset({"add"}))
        digest = store.register(new).tasks
        store.enqueue([job()])
        want = Want((Pool(digest, {ANY_QUEUE: 1}, 1),))
        claimed = store.exchange(self.session, 1, want=want).claimed
        self.ledger = Ledger()
        self.ledger.answered_exchanges = 1
        (self.hold,) = self.ledger.take(claimed)
        self.hold.begun = True
        self.page = page.Page(page.create(), writable=True)
        self.page.lease_ends_at = page.now() + 60_000_000
        line = StoreLine(store, self.session, self.page, first=False, lease_seconds=10)
        plan = Plan("shop:app")
        scope = SessionScope(plan, self.session, self.page, line, self.ledger)
        self.server = RequestServer(scope, Heartbeat(scope))
        self.closes = ExitStack()

    def asker(self) -> Asker:
        made = Asker(self.server)
        self.closes.callback(made.close)
        return made

    def given_to(self, asker: Asker) -> Lease:
        self.hold.executor = asker  # type: ignore[assignment]
        return self.hold.lease

    def settle(self) -> None:
        """The job has ended."""
        self.ledger.settle(self.hold, Complete(self.hold.lease))

    def tell_store(self) -> None:
        """The store knows how the job has ended."""
        self.store.exchange(self.session, 2, self.ledger.next_batch())
        self.ledger.acknowledged()


@pytest.fixture
def store() -> Iterator[Store]:
    made = open_store("sqlite://")
    yield made
    made.close()


def serve(store: Store, body: Callable[[Supervisor], Awaitable[T]]) -> T:
    async def run() -> T:
        supervisor = Supervisor(store)
        with supervisor.closes:
            return await asyncio.wait_for(body(supervisor), 30)

    return asyncio.run(run())


def written(store: Store) -> int:
    return sum(sum(queue.counts.values()) for queue in store.queues())


# -- for whom an executor may speak


def speaking(lease: Lease) -> dict[str, Request]:
    flow = IDS.new()
    return {
        "enqueue": EnqueueRequest([job()], fence=lease),
        "stage": StageRequest(flow, 0, [job()], lease),
        "commit": CommitRequest(flow, 1, lease),
    }


def test_an_executor_speaks_for_the_attempt_that_it_has(store: Store) -> None:
    async def body(supervisor: Supervisor) -> None:
        asker = supervisor.asker()
        requests = speaking(supervisor.given_to(asker))
        assert (await asker.ask(requests["enqueue"]))[0].outcome == "new"
        await asker.ask(requests["stage"])
        assert await asker.ask(requests["commit"]) is True
        assert asker.blamed == []

    serve(store, body)


@pytest.mark.parametrize("verb", ["enqueue", "stage", "commit"])
@pytest.mark.parametrize("whose", ["another's", "nobody's", "to come", "another session's"])
def test_an_executor_that_speaks_for_what_it_was_never_given_ends(
    store: Store, whose: str, verb: str
) -> None:
    async def body(supervisor: Supervisor) -> None:
        other, asker = supervisor.asker(), supervisor.asker()
        lease = supervisor.given_to(other if whose == "another's" else asker)
        if whose == "nobody's":
            supervisor.hold.executor = None
        elif whose == "to come":
            lease = lease._replace(token=lease.token + 1)
        elif whose == "another session's":
            lease = lease._replace(session=IDS.new())
        request = request_bytes(speaking(lease)[verb])
        await asker.send(header(len(request)) + request)
        await asker.until_over()
        assert "never given" in str(asker.blamed[0])
        assert other.blamed == []
        assert (await other.ask(InfoRequest())).schema_version > 0

    before = written(store)
    serve(store, body)
    assert written(store) == before + 1


@pytest.mark.parametrize("verb", ["enqueue", "stage", "commit"])
@pytest.mark.parametrize("how", ["settled", "settled long ago", "not told yet", "claimed again"])
def test_a_late_attempt_is_refused_and_its_executor_goes_on(
    store: Store, how: str, verb: str
) -> None:
    async def body(supervisor: Supervisor) -> None:
        asker = supervisor.asker()
        lease = supervisor.given_to(asker)
        if how == "claimed again":
            lease = lease._replace(token=lease.token - 1)
        else:
            supervisor.settle()
        if how.startswith("settled"):
            supervisor.tell_store()
        if how == "settled long ago":
            asker = supervisor.asker()  # which remembers nothing of the attempt
        with pytest.raises(LeaseLost):
            await asker.ask(speaking(lease)[verb])
        assert (await asker.ask(InfoRequest())).schema_version > 0
        assert asker.blamed == []

    before = written(store)
    serve(store, body)
    assert written(store) == before + 1


def test_nobody_stages_once_the_lease_is_over(store: Store) -> None:
    async def body(supervisor: Supervisor) -> None:
        asker = supervisor.asker()
        lease = supervisor.given_to(asker)
        supervisor.page.lease_ends_at = 1
        with pytest.raises(LeaseLost):
            await asker.ask(speaking(lease)["stage"])

    serve(store, body)


# -- how much, and how long


def large_request() -> bytes:
    return request_bytes(EnqueueRequest([job()._replace(args=f'"{"x" * (3 << 20)}"')]))


def test_large_requests_take_turns_and_small_ones_do_not_wait(store: Store) -> None:
    large = large_request()

    async def body(supervisor: Supervisor) -> None:
        first, second, third = (supervisor.asker() for _ in range(3))
        await first.send(header(len(large)))
        await third.ask(InfoRequest())
        assert supervisor.server._large.locked()
        waiting = asyncio.create_task(second.send(header(len(large)) + large))
        await third.ask(InfoRequest())
        assert not waiting.done(), "it was read into memory"
        await first.send(large)
        for asker in (first, second):
            assert read_answer(EnqueueRequest, await asker.answer())[0].outcome in (
                "new",
                "already",
            )

    serve(store, body)


def test_a_large_request_that_does_not_come_keeps_nobody_waiting_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_server, "_LONGEST_READ_SECONDS", 0.05)
    large = large_request()

    async def body(supervisor: Supervisor) -> None:
        slow, dripping, prompt = (supervisor.asker() for _ in range(3))
        parts = header(len(large)) + large[: 2 << 20], large[2 << 20 :]
        await slow.send(parts[0])
        await dripping.send(header(len(large)))

        async def drip() -> None:
            for at in range(len(large)):
                await dripping.send(large[at : at + 1])
                await asyncio.sleep(0.01)

        dripped = asyncio.create_task(drip())
        await prompt.send(header(len(large)) + large)
        assert read_answer(EnqueueRequest, await prompt.answer())[0].outcome == "new"
        await slow.send(parts[1])
        assert read_answer(EnqueueRequest, await slow.answer())[0].outcome in ("new", "already")
        dripped.cancel()
        assert slow.blamed == dripping.blamed == []

    serve(store, body)


def test_what_is_kept_of_slow_requests_is_bounded_and_costs_no_executor_its_life(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_server, "_LONGEST_READ_SECONDS", 0.05)
    monkeypatch.setattr(request_server, "_MOST_KEPT_BYTES", 3 << 20)
    large = large_request()

    async def body(supervisor: Supervisor) -> None:
        first, second = supervisor.asker(), supervisor.asker()
        await first.send(header(len(large)) + large[: 2 << 20])
        while supervisor.server._kept_bytes < 2 << 20:
            await asyncio.sleep(0.001)
        with suppress(ConnectionError):
            await second.send(header(len(large)) + large[: 2 << 20])
        await second.until_over()
        await first.send(large[2 << 20 :])
        assert read_answer(EnqueueRequest, await first.answer())[0].outcome == "new"
        assert first.blamed == second.blamed == []
        assert supervisor.server._kept_bytes == 0

    serve(store, body)


@pytest.mark.parametrize("size", [LARGEST_REQUEST_BYTES + 1, 0xFFFFFFFF])
def test_a_length_beyond_every_request_is_not_waited_for(store: Store, size: int) -> None:
    async def body(supervisor: Supervisor) -> None:
        asker = supervisor.asker()
        await asker.send(header(size))
        await asker.until_over()
        assert "no request has" in str(asker.blamed[0])

    serve(store, body)


# -- errors


def test_an_error_of_our_own_is_answered_and_nobodys_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ZeroDivisionError("of our own")

    async def body(supervisor: Supervisor) -> None:
        asker = supervisor.asker()
        monkeypatch.setattr(store, "info", fails)
        with pytest.raises(StoreUnavailable, match="ZeroDivisionError: of our own"):
            await asker.ask(InfoRequest())
        with pytest.raises(JobNotFound):
            await asker.ask(CancelRequest("x"))
        assert asker.blamed == []

    serve(store, body)


def test_an_error_of_our_own_outside_of_a_verb_ends_the_session(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(body: bytes) -> None:
        raise ZeroDivisionError("of our own")

    async def body(supervisor: Supervisor) -> None:
        parts = SessionParts()
        asyncio.get_running_loop().set_exception_handler(parts.callback_failed)
        asker = supervisor.asker()
        monkeypatch.setattr(request_server, "read_request", fails)
        request = request_bytes(InfoRequest())
        await asker.send(header(len(request)) + request)
        with pytest.raises(Defect, match="ZeroDivisionError: of our own"):
            await parts.any_of(asyncio.get_running_loop().create_future())
        assert asker.blamed == []

    serve(store, body)


# -- anything


FRAMED = st.one_of(
    st.binary(max_size=80),
    NONSENSE.map(msgspec.msgpack.encode),
    st.sampled_from(KINDS).flatmap(lambda kind: spoilt(sent(kind))).map(msgspec.msgpack.encode),
    st.sampled_from(KINDS).flatmap(sent).map(msgspec.msgpack.encode),
).map(lambda body: header(len(body)) + body)


@settings(max_examples=8 * LONG, suppress_health_check=[HealthCheck.too_slow])
@given(streams=st.lists(st.one_of(FRAMED, st.binary(max_size=40)), min_size=10, max_size=25))
def test_whatever_an_executor_writes_the_others_are_served(streams: list[bytes]) -> None:
    """Each is answered, or its executor is ended; nothing else comes of it."""
    found = open_store("sqlite://")

    async def body(supervisor: Supervisor) -> None:
        other = supervisor.asker()
        for stream in streams:
            asker = supervisor.asker()
            await asker.send(stream)
            asker.theirs.shutdown(socket.SHUT_WR)
            await asker.until_over()
            assert len(asker.blamed) <= 1
            assert (await other.ask(InfoRequest())).schema_version > 0
        assert other.blamed == []

    try:
        serve(found, body)
        assert [each.sentence for each in found.invariants()] == []
    finally:
        found.close()
