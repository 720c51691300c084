"""A worker with --burst stays for what waits for its host, and leaves what that cannot carry."""

import pytest
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, Handle, Place
from lifecycle.tasks import quick_sync
from lifecycle.test_gate import SERVER, calm_machine, most_at_once
from lifecycle.tree import Settings
from lifecycle.weighted import (
    HEAVY_AT_ONCE,
    computes_at_the_gate,
    stays,
    weighs_more_than_any_host,
)
from machine_tree import MachineTree, pressure

from limpet.domain.state import State

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

JOBS = 3 * HEAVY_AT_ONCE


def burst(tree: MachineTree) -> Settings:
    """There is a lane for each job: only the gate keeps any of them waiting."""
    return Settings(more=("--server-id", SERVER, "--burst"), machine=str(tree), lanes=JOBS)


def test_burst_runs_all_weighted_jobs_though_few_fit_at_once(one_place: Place) -> None:
    jobs: list[Handle] = [computes_at_the_gate.enqueue(seconds=0.3) for _ in range(JOBS)]
    worker = one_place.begin_worker(settings=burst(calm_machine(one_place)))
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert {one_place.job(job).state for job in jobs} == {State.SUCCEEDED}
    assert most_at_once(one_place, jobs) == HEAVY_AT_ONCE
    assert_no_orphans(one_place)


def test_burst_waits_until_its_host_is_calm(one_place: Place) -> None:
    tree = calm_machine(one_place)
    tree.write("proc/pressure/memory", pressure(40))
    job: Handle = stays.enqueue(word="over")
    worker = one_place.begin_worker(settings=burst(tree))
    one_place.until(lambda: one_place.store.hosts(SERVER), said="the host was measured")
    light: Handle = quick_sync.enqueue()
    one_place.until_final([light])
    # Where nothing waits it leaves about half a second after its last job; here it must not.
    assert worker.wait(2.0) is None
    tree.write("proc/pressure/memory", pressure(0))
    one_place.until_begun(job)
    one_place.say("over")
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert one_place.job(job).state is State.SUCCEEDED
    assert_no_orphans(one_place)


def test_burst_leaves_what_its_host_can_never_carry_and_says_so(one_place: Place) -> None:
    left: Handle = weighs_more_than_any_host.enqueue()
    jobs: list[Handle] = [computes_at_the_gate.enqueue(seconds=0.1) for _ in range(JOBS)]
    worker = one_place.begin_worker(settings=burst(calm_machine(one_place)))
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert {one_place.job(job).state for job in jobs} == {State.SUCCEEDED}
    assert one_place.job(left).state is State.READY
    assert f"jobs are left that {SERVER} cannot carry" in worker.log
    assert "of weighs_more_than_any_host;" in worker.log
    left.cancel("no host will do")
    assert_no_orphans(one_place)
