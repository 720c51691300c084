"""Steps of a server's clock at bad moments; run by `make prove`."""

import signal
from collections.abc import Iterator

import pytest
from lifecycle.network import Net, assert_untouched, net
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import allowance
from lifecycle.recorder import boottime
from lifecycle.test_clock import (
    LEASE,
    SETTINGS,
    STEP,
    assert_recovered_in_time,
    for_a_while,
    jobs_of,
)
from lifecycle.tree import Part

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=["redis", "valkey", "postgres"])
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


@pytest.mark.parametrize("step", [STEP, -STEP])
def test_a_step_while_the_supervisor_is_dead_costs_its_jobs_one_attempt(
    some: Net, step: float
) -> None:
    place = some.place
    worker = place.worker(settings=SETTINGS)
    old = place.session(worker).id
    jobs = jobs_of(place, "over")
    worker.signal(signal.SIGKILL, worker.only(Part.SUPERVISOR).pid)
    some.clock.set(step)
    since = boottime()
    place.until_begun(*jobs, times=2)
    assert place.session(worker, not_=old).id != old
    place.say("over")
    place.until_final(jobs)
    assert_recovered_in_time(place, jobs, since, LEASE + 1.0 + 2 * allowance())
    assert_no_orphans(place)


@pytest.mark.parametrize("step", [STEP, -STEP])
def test_a_step_during_a_drain_costs_nobody_anything(some: Net, step: float) -> None:
    place = some.place
    leaving = place.worker(settings=SETTINGS)
    jobs = jobs_of(place, "over")
    place.worker(settings=SETTINGS)
    leaving.signal(signal.SIGTERM)
    place.until(lambda: "stop requested" in leaving.log, said="it drains")
    some.clock.set(step)
    for_a_while(LEASE * 1.25)
    assert leaving.popen.poll() is None
    place.say("over")
    place.until_final(jobs)
    assert leaving.wait(10) == 0
    assert_untouched(place, *jobs)
    assert_no_orphans(place)
