"""Jobs that end their process: they stop after three strikes, and innocents do not pay."""

import json
import subprocess
import sys

import pytest
from lifecycle.hostile import Death, dies, dies_in_its_loop
from lifecycle.intervals import attempts
from lifecycle.modes import BEST, Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.tasks import steady
from lifecycle.tree import Settings

from limpet.domain.cause import Cause, ExecutorExited, OutOfMemory, TooManyStrikes, WorkerKilled
from limpet.domain.event import Event
from limpet.domain.state import State

pytestmark = pytest.mark.timeout(180)

DEATHS: tuple[Death, ...] = ("exit", "segfault", "grow")
MOST_MEMORY = "200MB"
OTHERS = 10
SETTINGS = Settings(lanes=3, more=("--max-rss", MOST_MEMORY))
# Three deaths, with the worker's waiting between executors that die again and again.
STRUCK_OUT_SECONDS = 60.0


def expected(cause: Cause | None, how: Death) -> bool:
    match how:
        case "exit":
            return isinstance(cause, ExecutorExited) and cause.code == 3
        case "segfault":
            return isinstance(cause, WorkerKilled) and cause.signal == 11
        case "grow":
            return isinstance(cause, OutOfMemory)


def assert_struck_out(place: Place, job: Handle, how: Death, *, losses: int = 3) -> None:
    """Failed after three strikes, every death on its timeline with its cause."""
    found = place.job(job)
    assert found.state is State.FAILED
    assert found.error == TooManyStrikes(count=3)
    assert found.counters == (0, losses, 3)
    told: list[Event] = place.losses(job)
    assert len(told) == losses
    assert all(expected(event.cause, how) for event in told), [str(event.cause) for event in told]
    assert len(place.attempts(job)) == losses


def test_a_job_that_ends_its_process_alone_stops_after_three_strikes(place: Place) -> None:
    place.worker(settings=SETTINGS)
    in_lanes: dict[Death, Handle] = {how: dies.enqueue(how=how) for how in DEATHS}
    in_loop: Handle = dies_in_its_loop.enqueue(how="exit")
    place.until_final([*in_lanes.values(), in_loop], STRUCK_OUT_SECONDS)
    for how, job in in_lanes.items():
        assert_struck_out(place, job, how)
    assert_struck_out(place, in_loop, "exit")
    shown = subprocess.run(
        [sys.executable, "-m", "limpet.cli.main", "job", "show", in_lanes["segfault"].id]
        + ["--json", "--url", place.url],
        capture_output=True,
        check=True,
    )
    causes = [event["cause"] for event in json.loads(shown.stdout)["timeline"]]
    assert [each["signal"] for each in causes if each and "signal" in each] == [11, 11, 11]
    assert_no_orphans(place)


# How each death is seen in each mode, the test before tells; here, who was beside it.
@pytest.mark.modes(BEST, Mode.SPAWN)
@pytest.mark.parametrize("how", DEATHS)
def test_others_in_the_loop_run_alone_once_get_no_strike_and_finish(
    place: Place, how: Death
) -> None:
    place.worker(settings=SETTINGS)
    others: list[Handle] = [steady.enqueue(word="over") for _ in range(OTHERS)]
    place.until_begun(*others)
    culprit: Handle = dies_in_its_loop.enqueue(how=how, word="die")
    place.until_begun(culprit)
    (pid,) = {place.attempts(job)[0].pid for job in [*others, culprit]}
    place.say("die")
    place.until_lost(*others, culprit, seconds=20)
    place.say("over")
    place.until_final([*others, culprit], STRUCK_OUT_SECONDS)
    # The first death was shared, so it was nobody's own doing.
    assert_struck_out(place, culprit, how, losses=4)
    for job in others:
        found = place.job(job)
        assert found.state is State.SUCCEEDED
        assert found.counters == (0, 1, 0)
        (loss,) = place.losses(job)
        assert expected(loss.cause, how), str(loss.cause)
    assert_ran_alone(place, [*others, culprit], pid)
    assert_no_orphans(place)


def assert_ran_alone(place: Place, suspects: list[Handle], first_pid: int) -> None:
    """After the death that they shared, no suspect had company in its process."""
    ids = {job.id for job in suspects}
    by_job = attempts(place.records())
    later = [each for job in ids for each in by_job[job][1:]]
    assert len(later) >= len(ids)
    assert all(each.pid != first_pid for each in later)
    for each in later:
        beside = [other for other in later if other.pid == each.pid and other is not each]
        assert not any(each.meets(other) for other in beside)
