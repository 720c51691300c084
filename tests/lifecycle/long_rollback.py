"""A server that comes back with an older snapshot, under running workers; run by `make prove`."""

from collections.abc import Iterator

import pytest
import redis
from lifecycle.network import Net, net
from lifecycle.orphans import assert_no_orphans
from lifecycle.test_rollback import FULL, assert_one_after_the_other, enqueued

from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=["redis", "valkey"])
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


def test_a_restart_from_an_older_snapshot_lets_nothing_run_twice_at_once(some: Net) -> None:
    place = some.place
    worker = place.worker(settings=FULL)
    place.store.pause("later")
    known, forgotten = enqueued("all", "over"), enqueued("later", "over")
    place.until_begun(*known)
    with redis.Redis(port=some.server.port) as client:
        client.save()
    old = place.session(worker).id
    place.store.pause("later", paused=False)
    place.until_begun(*forgotten)
    some.server.kill()
    some.server.start()
    place.store.pause("later", paused=False)
    assert {place.job(job).state for job in forgotten} == {State.READY}
    place.until_begun(*known, *forgotten, times=2)
    place.say("over")
    place.until_final([*known, *forgotten])
    assert_one_after_the_other(place, [*known, *forgotten])
    assert place.session(worker).id != old
    assert_no_orphans(place)
