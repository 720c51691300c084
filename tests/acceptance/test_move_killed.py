"""`limpet move`, killed or given up anywhere: every job is there once, and runs once."""

import contextlib
import json
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from acceptance.moving import (
    AT_ONCE,
    IDS,
    PAIRS,
    Killed,
    Life,
    Meanwhile,
    Mortal,
    accepted,
    assert_moved,
    fresh_stores,
    fresh_url,
    run_move,
    small,
    taken,
)
from contract.driver import EVERY_BACKEND
from contract.everything import seen

from limpet.domain.errors import StoreMoved, StoreNotMoved
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.ops.move import Mover
from limpet.storage.base import Store
from limpet.storage.registry import open_store
from limpet.storage.relocation import Stage
from limpet.testing.clock import FakeClock

KINDS = ("sqlite", "redis", "postgres")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores that were not there before."""
    with fresh_stores(tmp_path) as make:
        yield make


@contextmanager
def emptied(kind: str, other: str, folder: Path, clock: FakeClock) -> Iterator[tuple[Store, Store]]:
    """Two stores without a job, of different kinds."""
    names = {"sqlite": "sqlite-file"}
    folder = Path(tempfile.mkdtemp(dir=folder))
    urls = [EVERY_BACKEND[names.get(each, each)](folder) for each in (kind, other)]
    with closing(open_store(urls[0], clock)) as source, closing(open_store(urls[1], clock)) as to:
        source.migrate()
        to.migrate()
        yield source, to


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few jobs are several cargos."""
    for name in KINDS:
        monkeypatch.setattr(f"limpet.storage.{name}.cargo.CHUNK", 10)


def moves(source: Store, target: Store, calls: int) -> int | None:
    """Let a mover live for so many calls; how many it made if it did not need all."""
    life = Life(calls)
    try:
        Mover(Mortal(source, life), Mortal(target, life)).move(AT_ONCE)
    except Killed:
        return None
    return life.calls


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_mover_that_is_killed_anywhere_loses_and_doubles_nothing(
    tmp_path: Path, kind: str, other: str
) -> None:
    clock = FakeClock()
    stages: Counter[str] = Counter()
    for calls in range(1, 100):
        with emptied(kind, other, tmp_path, clock) as (source, target):
            jobs = set(small(source))
            needed = moves(source, target, calls)
            if needed is not None:
                break
            left, come = source.relocation()[0], target.relocation()[0]
            stages[left.stage if left else "open"] += 1
            assert source.invariants() == target.invariants() == ()
            # What others do before somebody starts the mover again.
            ran = taken(source)
            if come is not None:
                ran += taken(target)
            if (late := accepted(source)) is not None:
                jobs.add(late)
            assert (late is None) == (left is not None)
            Mover(source, target).move(AT_ONCE)
            assert_moved(source, target)
            ran += taken(target)
            assert len(ran) == len(set(ran)) == len(jobs) - 2
            states = Counter(target.states(list(jobs)).values())
            assert states == {State.SUCCEEDED: len(jobs) - 1, State.FAILED: 1}
    assert needed is not None
    assert needed > 15
    assert set(stages) == {"open", "closing", "closed", "moved"}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_move_is_given_up_anywhere_before_the_target_opens(
    tmp_path: Path, kind: str, other: str
) -> None:
    """Also by an `--abort` that is killed itself, and said again."""
    clock = FakeClock()
    with emptied(kind, other, tmp_path, clock) as (source, target):
        jobs = small(source)
        before = seen(source)
        for calls in range(5, 100):
            moves(source, target, calls)
            left = source.relocation()[0]
            if left is not None and left.stage is Stage.MOVED:
                break
            life = Life(5 + calls % 9)
            with contextlib.suppress(Killed):
                Mover(Mortal(source, life), Mortal(target, life)).abort()
            assert source.invariants() == target.invariants() == ()
            Mover(source, target).abort()
            assert (source.relocation(), target.relocation()) == ((None, ""), (None, ""))
            assert target.manifest().jobs == 0
            assert seen(source) == before
        assert calls > 15
        for _ in range(2):
            with pytest.raises(StoreNotMoved, match="cannot be opened again"):
                Mover(source, target).abort()
        Mover(source, target).move(AT_ONCE)
        assert_moved(source, target)
        assert Mover(source, target).move(AT_ONCE).already
        with pytest.raises(StoreNotMoved, match="cannot be opened again"):
            Mover(source, target).abort()
        assert len(taken(target)) == len(jobs) - 2


@pytest.mark.usefixtures("small_chunks")
def test_mover_that_goes_on_after_it_was_given_up_changes_nothing(tmp_path: Path) -> None:
    """Whatever it has done before: the source stays open, or the target is not emptied."""
    clock = FakeClock()
    for calls in range(5, 100):
        with emptied("sqlite", "redis", tmp_path, clock) as (source, target):
            jobs = small(source)
            meanwhile = Meanwhile(calls, Mover(source, target).abort)
            mover = Mover(Mortal(source, meanwhile), Mortal(target, meanwhile))
            try:
                mover.move(AT_ONCE)
            except (StoreNotMoved, StoreMoved):
                with contextlib.suppress(StoreNotMoved):
                    Mover(source, target).abort()
                moved = False
            else:
                moved = True
                if not meanwhile.done:
                    break
            left = source.relocation()[0]
            if left is None:
                assert not moved
                assert target.relocation() == (None, "")
                assert len(taken(source)) == len(jobs) - 2
            else:
                Mover(source, target).move(AT_ONCE)
                assert_moved(source, target)
                assert len(taken(target)) == len(jobs) - 2
    assert calls > 15


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("calls", [5, 7, 9, 11, 13, 15, 17])
def test_mover_that_goes_on_while_it_is_given_up_changes_nothing(
    tmp_path: Path, calls: int
) -> None:
    """Wherever it was, and however far the one who gives it up has come."""
    clock = FakeClock()
    ends: Counter[str] = Counter()
    for point in range(4, 20):
        with emptied("sqlite", "redis", tmp_path, clock) as (source, target):
            jobs = small(source)
            assert moves(source, target, calls) is None
            mover = Mover(source, target)
            meanwhile = Meanwhile(point, partial(mover.move, AT_ONCE))
            with contextlib.suppress(StoreNotMoved):
                Mover(Mortal(source, meanwhile), Mortal(target, meanwhile)).abort()
            left = source.relocation()[0]
            if left is not None and left.stage is Stage.MOVED:
                mover.move(AT_ONCE)
                assert_moved(source, target)
            else:
                mover.abort()
                assert target.relocation() == (None, "")
            home = target if left is not None and left.stage is Stage.MOVED else source
            assert len(taken(home)) == len(jobs) - 2
            assert source.invariants() == target.invariants() == ()
            ends["moved" if home is target else "given up"] += 1
            if not meanwhile.done:
                break
    assert set(ends) == {"moved", "given up"}


# -- as a process


def how_far(source: Store, target: Store) -> tuple[object, ...]:
    return source.relocation(), target.relocation()


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_process_that_is_killed_again_and_again_moves_each_job_once(
    fresh: Callable[..., Store], tmp_path: Path, kind: str, other: str
) -> None:
    urls = fresh_url(kind, tmp_path), fresh_url(other, tmp_path)
    source, target = fresh(kind, url=urls[0]), fresh(other, url=urls[1])
    taken_in: list[str] = []
    for _ in range(3):
        jobs = [NewJob(IDS.new(), "task", "{}") for _ in range(1_000)]
        source.enqueue(jobs)
        taken_in += [job.id for job in jobs]
    enqueuing = threading.Event()

    def enqueue() -> None:
        while True:
            job = NewJob(IDS.new(), "task", "{}")
            try:
                source.enqueue([job])
            except StoreMoved:
                return
            taken_in.append(job.id)
            enqueuing.set()
            time.sleep(0.005)  # else there are more and more

    client = threading.Thread(target=enqueue)
    client.start()
    enqueuing.wait(30)
    kills = 0
    while True:
        before = how_far(source, target)
        mover = run_move(*urls, "--json")
        while mover.poll() is None and how_far(source, target) == before:
            time.sleep(0.001)
        # It has just done something; what it does next is cut short.
        mover.send_signal(signal.SIGKILL)
        out, _ = mover.communicate(timeout=30)
        if mover.returncode == 0:
            break
        assert mover.returncode == -signal.SIGKILL
        kills += 1
        assert kills < 50
    client.join(30)
    assert not client.is_alive()
    assert kills >= 1
    assert json.loads(out)["jobs"] == len(taken_in) == target.manifest().jobs
    assert_moved(source, target)
    ran: list[str] = []
    while some := taken(target):
        ran += some
    assert sorted(ran) == sorted(taken_in)
