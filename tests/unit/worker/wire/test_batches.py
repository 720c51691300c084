"""Many large jobs are handed in a part at a time, because a task's request is read as a whole."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from limpet import App
from limpet.domain.job import NewJob
from limpet.storage.contract import bounds
from limpet.storage.contract.bounds import batches
from limpet.storage.contract.store import CHUNK
from limpet.worker.executor import fan_out
from limpet.worker.wire import request_bounds
from limpet.worker.wire.task_requests import EnqueueRequest, request_bytes


@pytest.fixture
def app() -> Iterator[App]:
    made = App("sqlite://")

    @made.task(name="keep")
    def keep(text: str) -> None: ...

    yield made
    made.close()


def jobs(*sizes: int) -> list[NewJob]:
    return [NewJob(f"{n:026}", "keep", "7" * size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([1] * CHUNK, [CHUNK]),
        ([1] * (CHUNK + 1), [CHUNK, 1]),
        ([40, 40, 40], [2, 1]),
        ([100, 1], [1, 1]),
        ([500, 1, 99, 1], [1, 2, 1]),
    ],
)
def test_a_batch_has_a_chunk_at_most_and_so_many_characters(
    sizes: list[int], parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_PER_BATCH", max(100, len(sizes)))
    every = jobs(*sizes)
    made = list(batches(every))
    assert [len(part) for part in made] == parts
    assert [job for part in made for job in part] == every


def test_large_jobs_are_handed_in_by_many_writes(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_PER_BATCH", 1_000)
    written: list[int] = []
    enqueue = app.client.store.enqueue

    def counting(jobs: Sequence[NewJob], **more: Any) -> Any:
        written.append(len(jobs))
        return enqueue(jobs, **more)

    monkeypatch.setattr(app.client.store, "enqueue", counting)
    calls = [app.find("keep").call("x" * 300) for _ in range(8)]
    handles = app.enqueue_many(calls)
    assert len({handle.id for handle in handles}) == 8
    assert written == [3, 3, 2]
    group = app.group(calls)
    assert len({handle.id for handle in group}) == 8
    assert written == [3, 3, 2], "a group is one step: it is staged"


def test_large_children_are_staged_in_parts(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from limpet.domain.errors import FanOut

    monkeypatch.setattr(bounds, "MOST_PER_BATCH", 1_000)
    parent = app.find("keep").enqueue("parent").id
    fan = FanOut([app.find("keep").call("x" * 300) for _ in range(8)])
    _, chunks, count = fan_out.stage(app, parent, fan)
    assert (chunks, count) == (3, 8)


def test_a_batch_as_large_as_may_be_is_a_request() -> None:
    """Each of its characters takes four bytes at most."""
    room = request_bounds.LARGEST_REQUEST_BYTES - 4 * bounds.MOST_PER_BATCH
    few = len(request_bytes(EnqueueRequest(jobs(*[1] * CHUNK))))
    assert few < room
