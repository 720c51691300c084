"""Workers with leases of different lengths on one store, and a host that vanishes."""

from collections.abc import Iterator

import pytest
from lifecycle.network import Net, assert_untouched, hide_lock, net, request_of
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance
from lifecycle.tasks import steady
from lifecycle.tree import Settings

from limpet.domain.cause import WorkerVanished

EVERY_STORE = True
pytestmark = pytest.mark.timeout(60)

SHORT, LONG = 2.0, 600.0


def test_worker_of_a_host_that_vanished_is_recovered_in_its_own_time_beside_a_lease_of_ten_minutes(
    one_place: Place,
) -> None:
    place = one_place
    idle = place.worker(settings=Settings(lease=LONG, queues=("idle",)))
    vanishing = place.worker(settings=Settings(lease=SHORT))
    job: Handle = steady.enqueue(word="over")
    place.until_begun(job)
    place.until_known(job)
    other = place.worker(settings=Settings(lease=SHORT))
    place.until(lambda: "is ready" in other.log, said="the other worker is ready")
    hide_lock(vanishing, place)
    killed = vanishing.kill_tree()
    place.until_lost(job, seconds=SHORT + 1.0 + 2 * allowance())
    (loss,) = place.losses(job)
    assert isinstance(loss.cause, WorkerVanished)
    assert loss.at / 1e6 - killed <= SHORT + allowance()
    place.until_begun(job, times=2)
    place.say("over")
    place.until_final([job])
    # What a failover costs is said by who would make it dear, where there can be one.
    costs = "no worker starts a job for that long" in idle.log
    assert costs == (place.store_kind != "sqlite")
    assert "starts a job for that long" not in other.log
    assert_no_orphans(place)


@pytest.fixture(params=["redis", "postgres"])
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


def test_connection_that_loses_its_packets_costs_no_session(some: Net) -> None:
    """A renewal goes on another connection in time, also when the next one is lost too."""
    place = some.place
    worker = place.worker(settings=Settings(lease=4.0))
    job: Handle = steady.enqueue(word="over")
    place.until_begun(job)
    place.until_known(job)
    session = place.session(worker)
    for _ in range(4):
        some.proxy.silence(request_of(some.kind, "renew"), ever=some.kind == "postgres")
        assert some.proxy.silenced.wait(10), "nobody renews"
        seen = place.session(worker).renewed_at
        place.until(lambda seen=seen: place.session(worker).renewed_at > seen)  # type: ignore[misc]
    assert place.session(worker).id == session.id
    place.say("over")
    place.until_final([job])
    assert_untouched(place, job)
    assert "the session is over" not in worker.log
    assert_no_orphans(place)
