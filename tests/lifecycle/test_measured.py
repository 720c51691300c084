"""The monitor of a host sees the executors of all its workers, in whichever way they run."""

import pytest
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.tree import Settings
from lifecycle.weighted import computes, holds_memory

from limpet.domain.reading import Reading
from limpet.gate.published import published_of

pytestmark = pytest.mark.timeout(120)

SERVER = "test-host"


def measured(place: Place) -> Reading | None:
    """What the host has said last."""
    for each in place.store.hosts():
        if each.server == SERVER and (said := published_of(each.body)) is not None:
            return said.reading
    return None


def busy_sessions(place: Place) -> set[str]:
    reading = measured(place)
    return {each.session for each in reading.executor_use if each.cpu > 5} if reading else set()


# Of those that are forked and as root, one with a namespace stands for one without.
@pytest.mark.modes(Mode.NAMESPACE, Mode.SPAWN, Mode.NON_ROOT)
def test_executors_of_every_worker_are_measured_and_holders_told_apart(place: Place) -> None:
    settings = Settings(more=("--server-id", SERVER, "--lanes", "1"))
    workers = [place.worker(settings=settings) for _ in range(2)]
    sessions = {place.session(each).id for each in workers}
    busy: list[Handle] = [computes.enqueue(seconds=60.0) for _ in range(2)]
    place.until(lambda: busy_sessions(place) == sessions, said="both are seen to compute")
    reading = measured(place)
    assert reading is not None
    assert all(each.memory > 1_000_000 for each in reading.executor_use)
    assert reading.cpu_others is not None, "nobody holds a permit, so all is told apart"
    for job in busy:
        job.cancel()
    place.until_final(busy)
    holder: Handle = holds_memory.enqueue(word="over")
    place.until_begun(holder)
    seen = place.until(lambda: _with_permit(place), said="a reading with its holder")
    assert seen.cpu_others is not None, "the holder's processes are seen"
    assert seen.memory_held is not None
    assert seen.memory_held > 60 << 20, "and so is what it has taken by now"
    place.say("over")
    place.until_final([holder])
    assert_no_orphans(place)


def _with_permit(place: Place) -> Reading | None:
    """A reading at which the permit has been seen at least twice."""
    (permit,) = place.store.permits()
    reading = measured(place)
    return reading if reading and reading.at > permit.at + 2_500_000 else None
