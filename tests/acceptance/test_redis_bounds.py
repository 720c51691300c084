"""What one script of a Redis store looks at is bounded, because everybody else waits for it."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from acceptance.redis_place import raw, running
from contract.driver import Holder, add, add_many, new_job
from servers import RedisServer

from limpet.domain.cause import Drained
from limpet.domain.transition import Release
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("bounds")) as some:
        yield some


@pytest.fixture
def space() -> str:
    return f"bounds{next(_numbers)}"


@pytest.fixture
def store(server: RedisServer, space: str) -> Iterator[Store]:
    with closing(open_store(f"{server.url}?namespace={space}")) as some:
        yield some
        assert some.invariants() == ()


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    with raw(server) as some:
        yield some


def _calls(client: Any, command: str) -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


# -- jobs that have lapsed


def test_claim_passes_over_so_many_lapsed_jobs_and_the_rest_is_cleared_first(store: Store) -> None:
    for _ in range(3):
        add_many(store, 1000, expires_at=1)
    living = add(store)
    holder = Holder(store)
    assert holder.claim(1) == ()
    with closing(store.listen(Topic.READY)) as bell:
        while store.promote().more:
            pass
        assert bell.wait(timedelta(seconds=10))
    assert holder.claim_ids(1) == [living]


def test_lapsed_jobs_of_one_line_do_not_hide_another(store: Store) -> None:
    for _ in range(2):
        add_many(store, 1000, expires_at=1)
    living = add(store, queue="another")
    assert Holder(store).claim_ids() == [living]


# -- lines


def test_line_that_was_emptied_is_not_looked_at_again(
    store: Store, client: Any, space: str
) -> None:
    def lines() -> set[bytes]:
        return set(client.smembers(f"{{{space}}}:lines"))

    store.cancel(add(store, queue="cancelled"))
    assert lines() == set()
    add(store, queue="lapsed", expires_at=1)
    store.promote()
    assert lines() == set()
    add(store, "strange", queue="blocked")
    add(store, "strange", queue="two")
    Holder(store).claim(1)
    assert lines() == set()


def test_claim_looks_at_so_many_lines_and_serves_all_of_them_in_turn(
    store: Store, client: Any
) -> None:
    jobs = [new_job(queue=f"queue{n}") for n in range(2400)]
    for start in range(0, len(jobs), 1000):
        store.enqueue(jobs[start : start + 1000])
    holder = Holder(store)
    before = _calls(client, "zrange")
    found = holder.claim_ids(800)
    assert len(found) == 800
    assert _calls(client, "zrange") - before <= 1000
    while len(found) < len(jobs):
        more = holder.claim_ids(800)
        assert more
        found += more
    assert set(found) == {job.id for job in jobs}


# -- timelines


def test_timeline_of_a_job_that_comes_back_for_ever_keeps_its_ends(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    leases = [holder.take()]
    for _ in range(1150):
        answer = holder.exchange(Release(leases[-1], Drained()), want=holder.want(1))
        leases.append(answer.claimed[0].lease)
    events = store.events(job)
    assert 1000 <= len(events) <= 1100
    tokens = [each.token for each in events]
    assert tokens[:10] == [each.token for each in leases[:10]]
    assert tokens[10:] == [each.token for each in leases[-len(tokens) + 9 : -1]]
    (again,) = holder.settle(Release(leases[-2], Drained()))
    assert again.answer == "already"
    (late,) = holder.settle(Release(leases[0], Drained()))
    assert late.answer == "lost"
