"""Flows of more jobs than one write takes: staged, committed, written out."""

from collections.abc import Callable, Mapping

import pytest
from client.families import Work, jobs_there, run_all
from client.hand import Hand

from limpet import App, State
from limpet.client.client import Client
from limpet.domain.errors import StoreUnreachable


def test_a_flow_of_10_000_children_is_one_atomic_call(app: App, work: Work, total: Work) -> None:
    store = app.client.store
    seen_before_the_commit: list[int] = []
    commit = store.commit

    def committing(flow: str, chunks: int, caps: Mapping[str, int] | None) -> bool:
        seen_before_the_commit.append(jobs_there(app))
        assert commit(flow, chunks, caps=caps) is True
        return commit(flow, chunks, caps=caps)  # the reply was lost, so it is said again

    store.commit = committing  # type: ignore[method-assign, assignment]
    parent = app.flow(total.call(9), [work.call(n) for n in range(10_000)])
    assert seen_before_the_commit == [0]
    assert jobs_there(app) == 10_001
    assert parent.state is State.BLOCKED
    assert parent.details.pending == 10_000
    assert len(parent.children) == 10_000
    found = app.job(parent.id).children
    assert [job.id for job in found] == [job.id for job in parent.children]
    assert [job.details.args for job in found[::2500]] == [
        f'{{"n":{n}}}' for n in range(0, 10_000, 2500)
    ]
    assert run_all(Hand(app))[-1] == parent.id
    assert parent.result("5s") == 9


def test_a_group_of_any_size_is_handed_in_at_one_moment(app: App, work: Work) -> None:
    group = app.group(work.call(n) for n in range(2500))
    assert [job.state for job in group.jobs] == [State.READY] * 2500


def test_a_large_flow_is_said_again_while_the_store_does_not_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(url, store_patience="20s")

    @app.task
    def work(n: int) -> int:
        return n

    store = app.client.store
    store.migrate()
    for verb in ("stage", "commit"):
        real = getattr(store, verb)
        monkeypatch.setattr(store, verb, _answered_the_second_time(real))
    assert len(app.group(work.call(n) for n in range(2500))) == 2500
    assert jobs_there(app) == 2500
    app.close()


def _answered_the_second_time(verb: Callable[..., object]) -> Callable[..., object]:
    def asked(*args: object, **more: object) -> object:
        verb(*args, **more)
        if args not in before:
            before.append(args)
            raise StoreUnreachable("the answer was lost")
        return verb(*args, **more)

    before: list[object] = []
    return asked


def test_a_committed_flow_is_accepted_whatever_comes_after(app: App, work: Work) -> None:
    store = app.client.store
    promote = store.promote

    def gone() -> object:
        raise StoreUnreachable("gone")

    store.promote = gone  # type: ignore[method-assign, assignment]
    group = app.group(work.call(n) for n in range(1500))
    assert jobs_there(app) == 0
    while promote().more:
        pass
    assert [job.state for job in group.jobs] == [State.READY] * 1500


def test_a_running_job_leaves_it_to_its_worker_to_write_out_a_large_flow(
    app: App, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = app.client.store
    rows = work.new_jobs([work.call(n).packed for n in range(1001)])
    promote, committed = store.promote, store.commit
    monkeypatch.delattr(type(store), "promote")

    def commit(flow: str, chunks: int, caps: Mapping[str, int] | None) -> bool:
        answer = committed(flow, chunks)
        while promote().more:
            pass
        return answer

    monkeypatch.setattr(store, "commit", commit)
    store.drain_queue("default")  # which still takes in what its running jobs ask for
    in_executor = Client(store, inside_worker=True)
    assert {each.outcome for each in in_executor.enqueue_whole(rows)} == {"new"}
    assert jobs_there(app) == 1001


def test_a_large_group_is_the_first_thing_that_a_store_hears(url: str) -> None:
    app = App(url)

    @app.task
    def work(n: int) -> int:
        return n

    assert len(app.group(work.call(n) for n in range(1_100))) == 1_100
    assert jobs_there(app) == 1_100
    app.close()
