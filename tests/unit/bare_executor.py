"""An executor as the supervisor has it, with nobody at the other end: what it says, a test writes.

The supervisor's side is real: splitter, decoder, link, dispatcher, placement, limits, ledger.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from limpet.domain.cause import NotStarted, Requested
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete, Release, Settlement
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.placement import Placement
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.wire.catalog import TaskFacts
from limpet.worker.wire.frames import LOOP
from limpet.worker.wire.plan import Plan

SESSION = "0" * 25 + "s"
LEASES = [Lease(f"{n:026d}", SESSION, n) for n in range(1, 6)]
# The first three have begun; the third was asked to stop, the fifth is over.
RUNNING, OTHER, STOPPING, WAITING, PAST = LEASES
STRANGER = Lease("v" * 26, SESSION, 1)


def claimed(lease: Lease) -> ClaimedJob:
    rest: tuple[Any, ...] = (False, False, 1, "{}", "{}", (), None)
    return ClaimedJob(lease, "task", "default", 1, 1, Counters(), *rest)


class Bare:
    """One executor with four jobs; `hear` takes what it says."""

    def __init__(self, payload_limit: int = 10_000) -> None:
        plan = Plan("shop:app")
        self.ended: list[object] = []
        self.said_of_app: list[object] = []
        requests: Any = SimpleNamespace(open=lambda executor: None)
        zygote: Any = SimpleNamespace(
            on_app=self.said_of_app.append,
            on_zygote_death=self.ended.append,
            on_garbled_zygote=self.ended.append,
        )
        self.executors = Executors(plan, SESSION, 0, 0, zygote)
        self.executors._channel, self._zygote = socket.socketpair()
        self.executors.expect_results(payload_limit)
        self.ledger = Ledger()
        page: Any = SimpleNamespace(over=False)
        line: Any = None
        self.dispatcher = Dispatcher(
            SessionScope(plan, SESSION, page, line, self.ledger),
            {"task": TaskFacts("task", False, False, False)},
            self.executors,
            Placement(self.executors, plan, 1_000, self.ledger),
            Demand(),
            requests,
        )
        self.dispatcher._placement.may_start = False
        self.executors.listener = self.dispatcher
        self.executor = Executor(1, LOOP, self.executors)
        self.executors.by_number[1] = self.executor
        self.executors._number = 1
        self._give()

    def _give(self) -> None:
        executor = self.executor
        gone = self.ledger.take([claimed(PAST)])
        executor.give(gone)
        os.read(executor._tokens.for_executor, 1)
        executor.ready = True
        self.dispatcher.on_done(executor, [Complete(PAST)])
        holds = self.ledger.take(map(claimed, (RUNNING, OTHER, STOPPING, WAITING)))
        executor.give(holds)
        os.read(executor._tokens.for_executor, 3)
        executor.look()
        holds[2].stop = Requested()
        executor._unsent.clear()
        self.ledger.next_batch()
        self.ledger.acknowledged()

    def hear(self, data: bytes) -> None:
        self.executor._receive(data)

    def hear_note(self, data: bytes) -> None:
        os.write(self.executor._note_writer, data[:4096])
        self.executor._note()

    @property
    def is_ended(self) -> bool:
        """Whether it was ended for what it said."""
        return self.executor._garbled is not None

    @property
    def settled(self) -> list[Settlement]:
        """What the store is to be told, but for what had not begun and is handed back."""
        back = Release(WAITING, NotStarted("a job that goes on was ahead of it"))
        return [settlement for settlement in self.ledger._outbox if settlement != back]

    def close(self) -> None:
        executor = self.executor
        if executor._transport is not None:
            executor._transport.abort()
        for sock in (
            executor._work, executor.theirs_work, executor.request_socket,
            executor.theirs_request_socket, self.executors._channel, self._zygote,
        ):  # fmt: skip
            sock.close()
        if executor._next_note is not None:
            executor._next_note.cancel()
        asyncio.get_running_loop().remove_reader(executor._notes)
        for descriptor in (
            executor._tokens.for_executor, executor._tokens._writer, executor._notes,
            executor._note_writer,
        ):  # fmt: skip
            with contextlib.suppress(OSError):  # closed when it was connected
                os.close(descriptor)


@contextmanager
def bare(payload_limit: int = 10_000) -> Iterator[Bare]:
    """One for a test; there must be a running loop."""
    executor = Bare(payload_limit)
    try:
        yield executor
    finally:
        executor.close()
