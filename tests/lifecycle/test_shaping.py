"""Keys, flows and rates under workers that die: the short runs of what `make prove` does."""

import time

import pytest
from contract.driver import LONG
from lifecycle.app import app
from lifecycle.orphans import all_jobs, assert_no_orphans
from lifecycle.place import Place, allowance
from lifecycle.rate import measure
from lifecycle.storm import storm
from lifecycle.tasks import fans_out, fans_out_widely, gathers, steady_sync
from lifecycle.tree import ORDERS, Settings
from lifecycle.work import Flow, Keyed

from limpet import Call
from limpet import Flow as FlowOf
from limpet.domain.state import FINAL, State

EVERY_STORE = True
GRACE_SECONDS = 1.0
# More than one part of a flow.
CHILDREN = 1_100
SETTINGS = Settings(lease=3.0)
PAUSES = (0.0, 0.1, 0.3)


@pytest.mark.timeout(240)
def test_never_two_of_a_key_at_once_and_its_order_kept_in_a_storm_of_kills(
    one_place: Place,
) -> None:
    found = storm(one_place, jobs=300, workers=3, kills=3, seed=11, work=Keyed(20))
    assert found.troubles == [], found.summary()
    assert found.succeeded == 300
    assert found.orphans > 0, "the kills hit nobody"
    assert found.left_at_last_kill > 0, "there was nothing left to kill"
    assert_no_orphans(one_place)


@pytest.mark.timeout(240)
def test_a_parent_runs_once_with_all_results_in_a_storm_of_kills(one_place: Place) -> None:
    found = storm(one_place, jobs=100, workers=3, kills=3, seed=12, work=Flow())
    assert found.troubles == [], found.summary()
    assert found.succeeded == 101
    assert found.orphans > 0, "the kills hit nobody"
    assert found.left_at_last_kill > 0, "there was nothing left to kill"
    assert_no_orphans(one_place)


@pytest.mark.timeout(120)
def test_cancelling_a_flow_of_three_levels_ends_the_subprocesses_of_its_leaves(
    one_place: Place,
) -> None:
    one_place.worker(settings=Settings(lanes=4, grace=GRACE_SECONDS))
    below: list[Call | FlowOf] = [
        fans_out.call(children=2),
        FlowOf(gathers.call(), [steady_sync.call(child=True)]),
    ]
    top = app.flow(gathers.call(), below)
    one_place.until(lambda: _with_subprocess(one_place) == 3, said="three leaves run")
    waiting = steady_sync.enqueue(seconds=0.1)
    cancelled_at = time.monotonic()
    assert top.cancel("no longer needed") is State.CANCELLED
    one_place.until(
        lambda: not _carriers(one_place), GRACE_SECONDS + 2 * allowance(), "no subprocess lives"
    )
    took = time.monotonic() - cancelled_at
    of_flow = [job for job in all_jobs(one_place) if job.id != waiting.id]
    assert len(of_flow) == 6
    one_place.until(
        lambda: all(job.state in FINAL for job in all_jobs(one_place)), said="all are over"
    )
    states = {job.state for job in all_jobs(one_place) if job.id != waiting.id}
    assert states == {State.CANCELLED}, f"after {took:.1f} s: {states}"
    assert one_place.job(waiting).state is State.SUCCEEDED
    assert all(job.counters == (0, 0, 0) for job in all_jobs(one_place))
    assert_no_orphans(one_place)


def _with_subprocess(place: Place) -> int:
    return len({record.job for record in place.records() if record.role == "subprocess"})


def _carriers(place: Place) -> list[str]:
    """The jobs that have a subprocess which is alive."""
    return [job.id for job in all_jobs(place) if place.carriers(app.job(job.id))]


@pytest.mark.timeout(180)
def test_a_worker_killed_while_a_job_fans_out_leaves_all_its_children_or_none(
    one_place: Place,
) -> None:
    """Killed while it stages, after that, and while they are written out: never some of them."""
    for number, pause in enumerate(PAUSES if LONG else PAUSES[1:2]):
        worker = one_place.worker(settings=SETTINGS)
        job = fans_out_widely.enqueue(children=CHILDREN)
        one_place.until_begun(job)
        time.sleep(pause)
        worker.kill_tree(ORDERS[number % len(ORDERS)], number)
        one_place.worker(settings=SETTINGS)
        one_place.until_final([job], 60.0)
        assert one_place.job(job).result == str(CHILDREN)
        mine = [each for each in all_jobs(one_place) if each.parent == job.id]
        assert len(mine) == CHILDREN
        one_place.stop()
    assert_no_orphans(one_place)


@pytest.mark.timeout(120)
def test_a_rate_is_held_by_four_workers_together(one_place: Place) -> None:
    """That jobs begin at it, within a twentieth, is shown by `make prove` on a quiet machine."""
    kept = measure(one_place, seconds=3.0, workers=4)
    assert kept.troubles == []
    assert kept.given_out >= 0.6 * kept.allowed, kept.summary()
    assert kept.given_out <= 1.05 * kept.allowed, kept.summary()
    assert_no_orphans(one_place)
