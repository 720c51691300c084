"""How an app hands in jobs: many at a time, flows, chains, groups, batches."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from limpet.app.flows import Child, Failed, Flow, FlowLayout, Part, as_children, fits
from limpet.app.task import Call
from limpet.client.client import Client
from limpet.client.group import GroupHandle
from limpet.client.handle import JobHandle
from limpet.domain.errors import InvalidOption, LimpetError
from limpet.domain.job import NewJob
from limpet.storage.contract.bounds import batches
from limpet.storage.contract.store import CHUNK


class Intake(ABC):
    """The part of an app that hands in jobs."""

    payload_limit: int

    @property
    @abstractmethod
    def client(self) -> Client:
        """The client, which hands in jobs and follows them."""

    # -- many

    def enqueue_many(self, calls: Iterable[Call]) -> list[JobHandle[Any]]:
        """Hand in many jobs in few writes: chunks of 1,000 jobs, or fewer where they are large,
        each written wholly or not at all.

        If a chunk is refused, the error's `accepted` has the handles of the chunks before it. A
        generator makes its next calls while the earlier ones are written.
        """
        if isinstance(calls, Sequence):
            self._check(calls)  # if one call is wrong, nothing is handed in
        given: deque[Call] = deque()
        handles: list[JobHandle[Any]] = []
        client = self.client
        try:
            for receipts in client.enqueue_many(self._chunks(calls, given)):
                for receipt in receipts:
                    task = given.popleft().task
                    handles.append(
                        JobHandle(client, receipt.job, task.name, receipt.state, task.signature)
                        if receipt.outcome == "new"  # inline for speed: this runs for every job
                        else task.handle(receipt)
                    )
        except LimpetError as error:
            error.accepted = tuple(handles)
            raise
        return handles

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[JobHandle[Any]]:
        """As `enqueue_many`, without blocking the event loop; a generator runs in a thread."""
        return await asyncio.to_thread(self.enqueue_many, calls)

    def _chunks(self, calls: Iterable[Call], given: deque[Call]) -> Iterator[Sequence[NewJob]]:
        rest = iter(calls)
        while chunk := list(islice(rest, CHUNK)):
            self._check(chunk)
            given.extend(chunk)
            jobs: list[NewJob] = []
            for task, alike in groupby(chunk, itemgetter(0)):
                jobs += task.new_jobs([call.packed for call in alike])
            yield from batches(jobs)

    def _check(self, calls: Sequence[Call]) -> None:
        for task in {call.task for call in calls}:
            fits(self, task, "enqueue_many")

    # -- flows

    def flow(
        self, parent: Call | Flow, children: Iterable[Part] = (), failed: Failed = "fail"
    ) -> JobHandle[Any]:
        """Hand in children and a job that runs when all of them have succeeded, in one step.

        `children` are calls, or flows of their own. `failed`: what happens to the parent when a
        child fails or is cancelled: "fail", "skip" (the child is left out) or "keep" (the parent
        finds the error in `ctx.children`); `Child(call, failed="skip")` sets it for one child.
        When the parent fails or is cancelled, all of its descendants are cancelled.
        """
        below = as_children(children, failed)
        if isinstance(parent, Flow):
            if below:
                raise InvalidOption(
                    "this Flow has children already; give all to Flow(…), or all to app.flow(…)."
                )
            whole = parent
        else:
            whole = Flow(parent, below)
        return self._hand_in([Child(whole)])[0]

    async def aflow(
        self, parent: Call | Flow, children: Iterable[Part] = (), failed: Failed = "fail"
    ) -> JobHandle[Any]:
        """As `flow`, without blocking the event loop."""
        return await asyncio.to_thread(self.flow, parent, children, failed)

    def chain(self, *calls: Call) -> JobHandle[Any]:
        """Hand in jobs in one step; each runs after the one before it has succeeded.

        Returns the handle of the last job. Each job finds the result of the job before it in
        `ctx.children`; where a job fails or is cancelled, so are the jobs after it.
        """
        if not calls:
            raise InvalidOption("a chain has at least one call: app.chain(first, second, …).")
        link = Flow(calls[0], [])
        for call in calls[1:]:
            link = Flow(call, [link])
        return self.flow(link)

    async def achain(self, *calls: Call) -> JobHandle[Any]:
        """As `chain`, without blocking the event loop."""
        return await asyncio.to_thread(self.chain, *calls)

    def group(self, calls: Iterable[Call | Flow]) -> GroupHandle:
        """Hand in jobs in one step, all or none, and follow them with one handle."""
        return GroupHandle(self._hand_in(as_children(calls)))

    async def agroup(self, calls: Iterable[Call | Flow]) -> GroupHandle:
        """As `group`, without blocking the event loop."""
        return await asyncio.to_thread(self.group, calls)

    def batch(self, calls: Iterable[Part], then: Call, failed: Failed = "keep") -> JobHandle[Any]:
        """Hand in jobs, and one more that runs when all of them are finished, in one step.

        Returns the handle of `then`; its `children` are the jobs. By default `then` runs however
        the jobs end, and finds their results and errors in `ctx.children`.
        """
        return self.flow(then, calls, failed)

    async def abatch(
        self, calls: Iterable[Part], then: Call, failed: Failed = "keep"
    ) -> JobHandle[Any]:
        """As `batch`, without blocking the event loop."""
        return await asyncio.to_thread(self.batch, calls, then, failed)

    def _hand_in(self, children: Sequence[Child]) -> list[JobHandle[Any]]:
        if not children:
            return []
        layout = FlowLayout(self, children)
        return layout.handles(self.client.enqueue_whole(layout.jobs))
