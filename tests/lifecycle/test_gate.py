"""Heavy work under real workers: it waits for room, gets what the dead leave, and gives way."""

import time
from collections.abc import Sequence

import pytest
from lifecycle.intervals import attempts
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance, wall_of
from lifecycle.tasks import quick_sync
from lifecycle.tree import Settings, Worker
from lifecycle.weighted import (
    HEAVY_AT_ONCE,
    computes,
    computes_at_the_gate,
    fills_its_host,
    gives_way,
    stays,
)
from machine_tree import MachineTree, pressure

from limpet.domain.event import EventName
from limpet.domain.state import State
from limpet.gate.published import Published, published_of

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

JOBS, WORKERS = 8, 4
SERVER = "test-host"
# Every second it looks, and a monitor that is new needs one more to see anything.
TAKEN_OVER_SECONDS = 2.0
ROOM_BACK_SECONDS = 1.0


def calm_machine(place: Place) -> MachineTree:
    """A machine that others do not keep busy, whatever else runs on the one under it."""
    tree = MachineTree(place.folder / "machine")
    tree.machine()
    return tree


def settings(tree: MachineTree | str = "/", grace: float | None = None) -> Settings:
    return Settings(more=("--server-id", SERVER), machine=str(tree), grace=grace)


def most_at_once(place: Place, jobs: Sequence[Handle]) -> int:
    """How many of the jobs ran at the same moment, by their own records."""
    ids = {job.id for job in jobs}
    edges = [
        edge
        for job, runs in attempts(place.records()).items()
        if job in ids
        for run in runs
        for edge in ((run.first, 1), (run.last, -1))
    ]
    most = now = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most


def test_never_more_runs_on_a_host_than_its_room_whichever_worker_takes_it(
    one_place: Place,
) -> None:
    tree = calm_machine(one_place)
    for _ in range(WORKERS):
        one_place.begin_worker(settings=settings(tree))
    for worker in one_place.workers:
        one_place.session(worker)
    light: list[Handle] = [computes.enqueue(seconds=0.5) for _ in range(JOBS)]
    one_place.until_final(light)
    assert most_at_once(one_place, light) > HEAVY_AT_ONCE, "they would not have met anyway"
    gated: list[Handle] = [computes_at_the_gate.enqueue(seconds=0.5) for _ in range(JOBS)]
    beside: Handle = quick_sync.enqueue()
    one_place.until_final([beside], 5.0)
    assert one_place.unfinished(), "the light job had to wait for all of the heavy ones"
    one_place.until_final(gated)
    assert most_at_once(one_place, gated) == HEAVY_AT_ONCE
    assert one_place.store.permits() == ()
    assert all(one_place.job(job).counters == (0, 0, 0) for job in gated)
    assert_no_orphans(one_place)


def test_room_of_a_killed_worker_is_given_to_the_next_within_a_second(one_place: Place) -> None:
    tree = calm_machine(one_place)
    workers = [one_place.worker(settings=settings(tree)) for _ in range(2)]
    job: Handle = fills_its_host.enqueue(word="over")
    one_place.until_begun(job)
    one_place.until_known(job)
    next_one: Handle = fills_its_host.enqueue(word="over")
    time.sleep(0.3)
    assert one_place.attempts(next_one) == []
    (permit,) = one_place.store.permits()
    assert (permit.server, permit.holder) == (SERVER, job.id)
    (holder,) = [each for each in workers if one_place.session(each).id == permit.session]
    killed = holder.kill_tree()
    again = one_place.until(lambda: _begun_after(one_place, killed, job, next_one))
    assert again - killed <= ROOM_BACK_SECONDS + allowance()
    one_place.say("over")
    one_place.until_final([job, next_one])
    assert most_at_once(one_place, [job, next_one]) == 1
    assert_no_orphans(one_place)


def _begun_after(place: Place, moment: float, *jobs: Handle) -> float:
    begun = [wall_of(run.first) for job in jobs for run in place.attempts(job)]
    return min((at for at in begun if at > moment), default=0.0)


def test_another_worker_of_the_host_measures_when_the_monitor_is_killed(one_place: Place) -> None:
    workers = {}
    for _ in range(2):
        worker = one_place.worker(settings=settings())
        workers[one_place.session(worker).id] = worker
    first = one_place.until(lambda: _said(one_place))
    assert first.reading.source != ""
    time.sleep(1.5)
    assert (said := _said(one_place)) is not None
    assert said.session == first.session, "one of them measures"
    killed = workers[first.session].kill_tree()
    one_place.until(lambda: _said_by_another(one_place, first), said="another one measures")
    assert time.time() - killed <= TAKEN_OVER_SECONDS + 2 * allowance()
    (other,) = set(workers) - {first.session}
    assert (said := _said(one_place)) is not None
    assert said.session == other
    assert said.worker == workers[other].name
    assert_no_orphans(one_place)


def _said(place: Place) -> Published | None:
    """What the host has said last."""
    found = [each.body for each in place.store.hosts() if each.server == SERVER]
    return published_of(found[0]) if found else None


def _said_by_another(place: Place, than: Published) -> bool:
    said = _said(place)
    return said is not None and said.session != than.session


def test_youngest_attempt_that_may_gives_way_when_its_host_is_pressed(one_place: Place) -> None:
    tree = calm_machine(one_place)
    workers = [one_place.worker(settings=settings(tree, grace=1.0)) for _ in range(2)]
    old: Handle = gives_way.enqueue(word="over")
    one_place.until_begun(old)
    young: Handle = gives_way.enqueue(word="over")
    one_place.until_begun(young)
    stays_on: Handle = stays.enqueue(word="over")
    one_place.until_begun(stays_on)
    tree.write("proc/pressure/memory", pressure(40))
    one_place.until(lambda: one_place.job(young).state is State.READY, said="the youngest is back")
    (released,) = one_place.events(young, EventName.RELEASED)
    assert released.cause is not None
    assert released.cause.kind == "HostPressed"
    assert str(released.cause) == (
        f"{SERVER} ran short of memory (memory pressure 40 % of 10 %), and the job gave way"
    )
    time.sleep(1.5)
    assert len(one_place.attempts(young)) == 1, "it must not begin while the host is pressed"
    assert [one_place.job(job).state for job in (old, stays_on)] == [State.RUNNING] * 2
    tree.write("proc/pressure/memory", pressure(0))
    one_place.until_begun(young, times=2)
    one_place.say("over")
    one_place.until_final([old, young, stays_on])
    for job in (old, young, stays_on):
        assert one_place.job(job).counters == (0, 0, 0)
        assert one_place.job(job).state is State.SUCCEEDED
    _none_died(workers)
    assert_no_orphans(one_place)


def _none_died(workers: Sequence[Worker]) -> None:
    assert all(worker.popen.poll() is None for worker in workers)
