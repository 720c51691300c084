"""A job that ends other executors of its worker: those whose jobs are lost do not pay for it."""

import os
import signal

import pytest
from lifecycle.hostile import dies, kills, kills_everybody, kills_itself
from lifecycle.modes import Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.tasks import steady, steady_sync
from lifecycle.tree import Settings

from limpet.domain.cause import TooManyStrikes, WorkerKilled
from limpet.domain.state import State
from limpet.domain.transition import MOST_STRIKES

EVERY_STORE = True
pytestmark = pytest.mark.timeout(180)

SETTINGS = Settings(lanes=3)
STRUCK_OUT_SECONDS = 60.0


def assert_lost_without_a_strike(place: Place, job: Handle, number: int, times: int = 1) -> None:
    """It has succeeded, and each loss is on its timeline with the signal."""
    found = place.job(job)
    assert found.state is State.SUCCEEDED
    assert found.counters == (0, times, 0)
    assert [event.cause for event in place.losses(job)] == [
        WorkerKilled(number, "executor") for _ in range(times)
    ]
    assert len(place.attempts(job)) == times + 1


@pytest.mark.modes(Mode.NAMESPACE, Mode.NON_ROOT)
def test_a_job_whose_executor_others_kill_again_and_again_gets_no_strike(place: Place) -> None:
    """As often as poison would fail; whoever killed has succeeded and is gone each time."""
    place.worker(settings=SETTINGS)
    innocent: Handle = steady_sync.enqueue(word="over")
    culprits: list[Handle] = []
    for times in range(1, MOST_STRIKES + 1):
        place.until_begun(innocent, times=times)
        place.until_known(innocent)
        culprits.append(kills.enqueue(pid=place.attempts(innocent)[-1].pid))
        place.until_lost(innocent, times=times, seconds=20)
    place.say("over")
    place.until_final([innocent, *culprits])
    assert_lost_without_a_strike(place, innocent, signal.SIGKILL, MOST_STRIKES)
    for culprit in culprits:
        assert place.job(culprit).state is State.SUCCEEDED
        assert place.job(culprit).counters == (0, 0, 0)
    assert_no_orphans(place)


@pytest.mark.one_store
@pytest.mark.modes(Mode.NAMESPACE, Mode.SPAWN)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_executors_that_a_job_kills_all_together_cost_no_strike(
    place: Place, number: signal.Signals
) -> None:
    """A fault's own signal, too: three that fault at the same moment have not done so."""
    worker = place.worker(settings=SETTINGS)
    innocents: list[Handle] = [
        steady_sync.enqueue(word="over"),
        steady_sync.enqueue(word="over", child=True),
        steady.enqueue(word="over"),
    ]
    place.until_begun(*innocents)
    place.until_known(*innocents)
    culprit: Handle = kills_everybody.enqueue(
        outer=os.readlink("/proc/self/ns/pid"), number=int(number)
    )
    place.until_lost(*innocents, seconds=20)
    place.until_begun(*innocents, times=2)
    assert all(place.job(job).suspect for job in innocents)
    place.say("over")
    place.until_final([*innocents, culprit])
    assert place.job(culprit).result == '"done"', place.job(culprit).error
    assert place.job(culprit).counters == (0, 0, 0)
    for job in innocents:
        assert_lost_without_a_strike(place, job, number)
    pids = [place.attempts(job)[1].pid for job in innocents]
    assert len(set(pids)) == len(pids), "suspects run alone"
    assert worker.log.count("ended by a signal") == len(innocents)
    assert_no_orphans(place)


@pytest.mark.one_store
@pytest.mark.modes(Mode.NAMESPACE, Mode.SPAWN)
def test_poison_is_still_struck_out_beside_others_by_a_fault_and_alone_by_any_signal(
    place: Place,
) -> None:
    place.worker(settings=SETTINGS)
    alone: Handle = kills_itself.enqueue()
    place.until_final([alone], STRUCK_OUT_SECONDS)
    neighbour: Handle = steady_sync.enqueue(word="over")
    place.until_begun(neighbour)
    beside: Handle = dies.enqueue(how="segfault")
    place.until_final([beside], STRUCK_OUT_SECONDS)
    unclear: Handle = kills_itself.enqueue()
    place.until_final([unclear], STRUCK_OUT_SECONDS)
    place.say("over")
    place.until_final([neighbour])
    for job in (alone, beside):
        assert place.job(job).error == TooManyStrikes(count=MOST_STRIKES)
        assert place.job(job).counters == (0, MOST_STRIKES, MOST_STRIKES)
    # Nobody can know who sent that signal: it ends all the same, at the cap of losses.
    assert place.job(unclear).state is State.FAILED
    assert place.job(unclear).counters.orphans <= 10
    assert place.job(neighbour).counters == (0, 0, 0)
    assert_no_orphans(place)
