"""Two apps in one process hand in jobs to each other from inside their tasks."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.two_apps import asks, floods, left, nothing, ping, right

from limpet.domain.cause import WorkerVanished
from limpet.domain.job import JobFilter

HOPS = 6
SETTINGS = ("--lanes", "2", "--lease", "4s")


@contextmanager
def at_work(place: Place, left_url: str, right_url: str) -> Iterator[None]:
    """A worker for each of the apps, in the folder that short names are relative to."""
    before = os.getcwd()
    os.chdir(place.folder)
    left.registry.move_to(left_url)
    right.registry.move_to(right_url)
    urls = {"LIMPET_TEST_LEFT": left_url, "LIMPET_TEST_RIGHT": right_url}
    try:
        for name in ("left", "right"):
            place.begin_worker(*SETTINGS, target=f"worker.two_apps:{name}", url=None, env=urls)
        for worker in place.workers:
            worker.until_ready()
        yield
        for app in (left, right):
            assert app.client.store.invariants() == ()
    finally:
        left.registry.move_to("sqlite://")
        right.registry.move_to("sqlite://")
        os.chdir(before)


def assert_they_serve_each_other(place: Place) -> None:
    ping.enqueue(place.notes, HOPS)
    until(lambda: len(notes(place.notes)) > HOPS, said="all hops")
    assert asks.enqueue(21).result(timeout=20) == 43
    hops = [(each["what"], each["hops"]) for each in notes(place.notes)]
    assert hops == [(("ping", "pong")[n % 2], HOPS - n) for n in range(HOPS + 1)]
    assert not any(worker.log("session_over") for worker in place.workers)


def tasks_handed_in() -> list[set[str]]:
    """Which tasks there are jobs of, in the store of each app."""
    stores = [app.client.store for app in (left, right)]
    return [{job.task for job in store.jobs(JobFilter()).jobs} for store in stores]


def test_apps_on_two_stores_hand_in_jobs_to_each_other(place: Place) -> None:
    with at_work(place, "sqlite:///left.db", "sqlite:///right.db"):
        assert_they_serve_each_other(place)
        assert tasks_handed_in() == [{"ping", "asks", "halves"}, {"pong", "doubles"}]


@pytest.mark.parametrize("also", ["", "?synchronous=normal"], ids=["same", "written otherwise"])
def test_apps_on_one_store_hand_in_jobs_to_each_other(place: Place, also: str) -> None:
    """And a late holder hands in nothing, through whichever app, however its URL is written."""
    with at_work(place, "sqlite:///jobs.db", f"sqlite:///{place.folder}/jobs.db{also}"):
        assert_they_serve_each_other(place)
        assert tasks_handed_in() == [{"ping", "pong", "asks", "doubles", "halves"}] * 2

        path = f"{place.notes}-flood"
        job = floods.enqueue(path)
        store = left.client.store
        flood = JobFilter(task=nothing.name)
        until(lambda: len(store.jobs(flood).jobs) > 5, said="it hands in jobs")
        session = left.job(job.id).details.session
        assert session is not None
        store.end(session, WorkerVanished(last_seen=0))
        over = time.time_ns() // 1000
        assert job.result(timeout=20) == "second"
        # A worker that learns of it first ends the task before it can try.
        assert {each["error"] for each in notes(path, "refused")} <= {"LeaseLost"}
        assert [each for each in store.jobs(flood).jobs if each.created_at > over] == []
