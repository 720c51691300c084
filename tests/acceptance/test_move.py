"""`limpet move`: everything arrives as it was; what cannot be moved is refused."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from acceptance.moving import (
    AT_ONCE,
    IDS,
    Killed,
    Life,
    Mortal,
    assert_moved,
    fresh_stores,
    fresh_url,
    run_move,
    taken,
)
from contract.driver import SECOND, Holder, add, add_many, get, new_job
from contract.everything import furnish, seen
from servers import shared_url

from limpet.domain.errors import (
    InvalidOption,
    LimpetError,
    StoreBusy,
    StoreMoved,
    StoreNotMoved,
    StoreRefused,
)
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.ops.move import Mover
from limpet.storage.contract.relocation import MoveStage, Relocation
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores that were not there before."""
    with fresh_stores(tmp_path) as make:
        yield make


def test_everything_moves_from_any_store_to_any_other(fresh: Callable[..., Store]) -> None:
    """And back: the chain has every pair of kinds, and all kinds of jobs."""
    clock = FakeClock()
    source = fresh("sqlite", clock)
    jobs = furnish(source, clock)
    before = seen(source)
    assert len(before.jobs) == len(jobs)
    assert {job.state for job in before.jobs.values()} == set(State) - {State.RUNNING}
    chain = ("redis", "postgres", "sqlite", "postgres", "valkey", "sqlite", "sqlite", "valkey")
    for kind in chain:
        target = fresh(kind, clock)
        moved = Mover(source, target).move(AT_ONCE)
        assert (moved.jobs, moved.already) == (len(jobs), False)
        assert seen(target) == before, kind
        assert seen(source) == before, kind
        assert_moved(source, target)
        source = target


# -- refused


def test_running_jobs_are_waited_for_and_dead_workers_are_swept(
    fresh: Callable[..., Store],
) -> None:
    clock = FakeClock()
    source, target = fresh("sqlite", clock), fresh("redis", clock)
    jobs = add_many(source, 3)
    living, dying = Holder(source), Holder(source)
    done, lost = living.take(begin=True), dying.take(begin=True)
    told: list[int] = []
    with pytest.raises(StoreNotMoved, match=r"sqlite:.* still runs 2 jobs.*--abort"):
        Mover(source, target, on_progress=lambda now: told.append(now.running)).move(AT_ONCE)
    assert told == [2]

    def sweep() -> None:
        living.settle(Complete(done)) if not living.seq > 1 else None
        dying.vanish() if source.sessions() != () and told[-1] == 1 else None

    mover = Mover(source, target, sweep=sweep, on_progress=lambda now: told.append(now.running))
    assert mover.move(timedelta(seconds=30)).jobs == 3
    assert [count for count in told if count] == [2, 2, 1]
    assert get(target, lost.job).counters.orphans == 1
    assert target.states(jobs)[done.job] is State.SUCCEEDED
    assert_moved(source, target)


def test_what_cannot_be_moved_is_refused_with_a_sentence(
    fresh: Callable[..., Store], tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)
    source, busy = fresh("sqlite", url=url), fresh("redis")
    empty, worked = fresh("redis"), fresh("redis")

    def refusal(one: Store, two: Store) -> str:
        with pytest.raises((StoreNotMoved, InvalidOption)) as refused:
            Mover(one, two).move(AT_ONCE)
        return str(refused.value)

    assert "has no jobs" in refusal(source, empty)
    source.enqueue([NewJob(IDS.new(), "task", "{}")])
    busy.enqueue([NewJob(IDS.new(), "task", "{}")])
    assert "1 job and 0 workers" in refusal(source, busy)
    Holder(worked)
    assert "0 jobs and 1 worker." in refusal(source, worked)
    (tmp_path / "link").symlink_to(tmp_path)
    with closing(open_store(url.replace(f"{tmp_path}/", f"{tmp_path}/link/"))) as itself:
        assert "same store" in refusal(source, itself)
    with closing(open_store("sqlite://")) as memory:
        assert "memory" in refusal(source, memory)
        assert "memory" in refusal(memory, source)
    assert source.relocation()[0] is None
    for store in (busy, empty, worked):
        assert store.relocation()[0] is None

    Mover(source, empty).move(AT_ONCE)
    third = fresh("redis")
    assert "was moved to" in refusal(source, third)
    assert "was moved to" in refusal(busy, source)
    life = Life(9)
    with pytest.raises(Killed):
        Mover(Mortal(busy, life), Mortal(third, life)).move(AT_ONCE)
    assert third.relocation()[0] is not None
    assert "is being filled from" in refusal(empty, third)
    assert "itself being filled" in refusal(third, fresh("redis"))


def test_password_is_neither_kept_nor_shown(fresh: Callable[..., Store], tmp_path: Path) -> None:
    source = fresh("sqlite")
    source.enqueue([NewJob(IDS.new(), "task", "{}")])
    url = f"{shared_url('postgres')}?schema=move_{uuid.uuid4().hex[:12]}"
    target = fresh("postgres", url=url.replace("postgres@", "postgres:hush-hush@"))
    moved = Mover(source, target).move(AT_ONCE)
    with pytest.raises(StoreMoved) as refused:
        source.enqueue([new_job()])
    for text in (str(moved), str(refused.value), str(source.relocation()), str(target.info())):
        assert "hush-hush" not in text


def test_transaction_of_somebody_is_waited_for_or_refused(
    fresh: Callable[..., Store], tmp_path: Path
) -> None:
    """A job within a transaction that was let in before is not left behind by the move."""
    url = fresh_url("postgres", tmp_path)
    source, target = fresh("postgres", url=url), fresh("sqlite")
    source.enqueue([NewJob(IDS.new(), "task", "{}")])
    inside = NewJob(IDS.new(), "task", "{}")
    late = NewJob(IDS.new(), "task", "{}")
    plain = url.partition("?")[0]
    with psycopg.connect(plain) as mine, psycopg.connect(plain) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT 1")  # from now on it sees this moment
        source.enqueue_within(mine, [inside])
        mover = threading.Thread(target=lambda: Mover(source, target).move(timedelta(seconds=30)))
        mover.start()
        time.sleep(0.7)
        assert source.relocation()[0] is None
        mine.commit()
        mover.join(30)
        assert not mover.is_alive()
        assert inside.id in target.states([inside.id])
        with pytest.raises((StoreMoved, StoreBusy)):
            source.enqueue_within(old, [late])
        with pytest.raises(StoreMoved):
            source.enqueue_within(mine, [late])
    assert source.states([late.id]) == {}
    assert_moved(source, target)


def test_role_that_only_uses_a_store_enqueues_within_but_does_not_move_it(
    fresh: Callable[..., Store], tmp_path: Path
) -> None:
    url = fresh_url("postgres", tmp_path)
    fresh("postgres", url=url)
    schema = url.rpartition("=")[2]
    role = f"role_{schema}"
    grants = files("limpet.storage.postgres").joinpath("grants.sql").read_text()
    grants = grants.replace("limpet_role", role).replace("limpet.", f"{schema}.")
    grants = grants.replace("SCHEMA limpet", f"SCHEMA {schema}")
    own_url = url.replace("postgres@", f"{role}@")
    with psycopg.connect(shared_url("postgres"), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN; {grants}".encode())
        try:
            with (
                closing(open_store(own_url)) as store,
                psycopg.connect(own_url.partition("?")[0]) as mine,
            ):
                job = NewJob(IDS.new(), "task", "{}")
                store.enqueue_within(mine, [job])
                mine.commit()
                assert store.states([job.id]) == {job.id: State.READY}
                closing_ = Relocation("m" * 26, MoveStage.CLOSING, "redis://elsewhere", "epoch")
                with pytest.raises(StoreRefused, match="owner"):
                    store.relocate(None, closing_)
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_verb_under_way_is_waited_for(fresh: Callable[..., Store], tmp_path: Path) -> None:
    """Whoever was let through is seen by the step that closes the store, or comes after it."""
    url = fresh_url("postgres", tmp_path)
    source = fresh("postgres", url=url)
    closing_ = Relocation("m" * 26, MoveStage.CLOSING, "redis://elsewhere", "epoch")
    schema = url.rpartition("=")[2]
    with psycopg.connect(url.partition("?")[0]) as mine:
        mine.execute(f"SELECT {schema}.v1_due(0)".encode())
        with pytest.raises(StoreBusy):
            source.relocate(None, closing_)
        mine.commit()
        assert source.relocate(None, closing_).done


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_new_job_of_a_new_store_comes_after_its_equals_that_arrived(
    fresh: Callable[..., Store], kind: str
) -> None:
    clock = FakeClock()
    source, target = fresh("sqlite", clock), fresh(kind, clock)
    due = clock.wall() + SECOND
    jobs = add_many(source, 5, scheduled_for=due)
    Mover(source, target).move(AT_ONCE)
    jobs.append(add(target, scheduled_for=due))
    clock.advance(timedelta(seconds=2))
    target.promote()
    assert Holder(target).claim_ids() == jobs


class Careless(Life):
    """A mover's who loses a job on the way."""

    def live(self, verb: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        if verb.__name__ == "adopt":
            move, cargo = given
            return verb(move, cargo._replace(parcels=cargo.parcels[1:]))
        return verb(*given)


def test_target_that_lacks_a_job_is_not_opened(fresh: Callable[..., Store]) -> None:
    source, target = fresh("sqlite"), fresh("redis")
    source.enqueue([NewJob(IDS.new(), "task", "{}") for _ in range(3)])
    with pytest.raises(StoreNotMoved, match=r"2 of 3 jobs.*nothing was given up"):
        Mover(source, Mortal(target, Careless(0))).move(AT_ONCE)
    with pytest.raises(StoreMoved, match="being filled"):
        target.promote()
    assert Mover(source, target).abort().aborted
    assert len(taken(source)) == 3


def test_transaction_on_a_file_that_has_moved_is_refused(
    fresh: Callable[..., Store], tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)
    source, target = fresh("sqlite", url=url), fresh("sqlite")
    source.enqueue([NewJob(IDS.new(), "task", "{}")])
    Mover(source, target).move(AT_ONCE)
    path = url.removeprefix("sqlite:///").partition("?")[0]
    with closing(apsw.Connection(path)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreMoved):
            source.enqueue_within(mine, [NewJob(IDS.new(), "task", "{}")])
        mine.execute("COMMIT")
    assert source.manifest().jobs == 1


def test_command_says_what_it_did_and_how_it_went(
    fresh: Callable[..., Store], tmp_path: Path
) -> None:
    urls = fresh_url("sqlite", tmp_path), fresh_url("redis", tmp_path)
    source = fresh("sqlite", url=urls[0])
    source.enqueue([NewJob(IDS.new(), "task", "{}") for _ in range(3)])

    def said(*more: str, to: str = urls[1]) -> tuple[int | None, str, str]:
        process = run_move(urls[0], to, *more)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    assert said("--wait", "soon")[0] == 2
    code, _, err = said(to=urls[0].partition("?")[0])
    assert (code, "same store" in err) == (2, True)
    assert said("--abort")[0] == 1
    code, out, _ = said()
    assert (code, "moved 3 jobs from sqlite:" in out) == (0, True)
    code, out, _ = said("--json")
    assert (code, json.loads(out)["already"], json.loads(out)["jobs"]) == (0, True, 3)
    code, _, err = said("--abort")
    assert (code, "cannot be opened again" in err) == (1, True)
    code, _, err = said(to=fresh_url("sqlite", tmp_path))
    assert (code, "was moved to" in err, "Traceback" in err) == (1, True, False)


def test_two_movers_at_once_do_no_harm(fresh: Callable[..., Store], tmp_path: Path) -> None:
    urls = fresh_url("sqlite", tmp_path), fresh_url("redis", tmp_path)
    source, target = fresh("sqlite", url=urls[0]), fresh("redis", url=urls[1])
    jobs = [NewJob(IDS.new(), "task", "{}") for _ in range(1_000)]
    source.enqueue(jobs)
    movers = [(open_store(urls[0]), open_store(urls[1])) for _ in range(3)]
    gate = threading.Barrier(len(movers))
    ends: list[str] = []

    def move(one: Store, two: Store) -> None:
        gate.wait()
        try:
            Mover(one, two).move(AT_ONCE)
            ends.append("moved")
        except LimpetError as error:
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=move, args=pair) for pair in movers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for one, two in movers:
        one.close()
        two.close()
    assert len(ends) == 3
    assert set(ends) <= {"moved", "StoreNotMoved"}
    Mover(source, target).move(AT_ONCE)
    assert_moved(source, target)
    assert sorted(taken(target)) == sorted(job.id for job in jobs)
