"""A store moves while its workers run: each job runs once, here or there."""

import json
import os
import re
import subprocess
import sys

import pytest
from lifecycle.app import app
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, START_SECONDS, Handle, Place
from lifecycle.tasks import hands_on, quick, steady, steady_sync
from lifecycle.tree import Settings

from limpet import JobHandle
from limpet.domain.errors import StoreMoved
from limpet.domain.state import State
from limpet.storage.contract.relocation import MoveStage

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

OTHER = {"sqlite": "redis", "redis": "postgres", "valkey": "sqlite", "postgres": "valkey"}
WRONG_USAGE = 2


def begin_move(source: str, target: str) -> "subprocess.Popen[str]":
    words = ["move", source, target, "--wait", f"{PATIENCE_SECONDS}s", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "limpet.cli.main", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")},
    )  # fmt: skip


def stage_of(place: Place) -> MoveStage | None:
    found = place.store.relocation()[0]
    return found.stage if found else None


def test_store_moves_while_jobs_run_and_a_worker_is_killed(one_place: Place) -> None:
    place = one_place
    keeper, victim = (
        place.worker(settings=Settings(lease=10.0, queues=(queue,))) for queue in ("kept", "lost")
    )
    kept: list[Handle] = [
        steady.using(queue="kept").enqueue(word="over"),
        steady_sync.using(queue="kept").enqueue(word="over"),
    ]
    parent: Handle = hands_on.using(queue="kept").enqueue(word="over")
    lost: Handle = steady.using(queue="lost").enqueue(word="over")
    place.until_begun(*kept, parent, lost)
    place.until_known(lost)
    waiting: list[Handle] = [steady.using(queue="later").enqueue(seconds=0.0) for _ in range(9)]

    source, place.store_kind = place.url, OTHER[place.store_kind]
    mover = begin_move(source, place.url)
    place.until(lambda: stage_of(place) is MoveStage.CLOSING, said="the source is closing")
    with pytest.raises(StoreMoved, match="being moved to"):
        quick.enqueue()
    victim.kill_tree()
    assert mover.poll() is None
    place.say("over")
    out, err = mover.communicate(timeout=PATIENCE_SECONDS)
    assert mover.returncode == 0, err
    with pytest.raises(StoreMoved, match="was moved to"):
        quick.enqueue()
    assert place.store.invariants() == ()
    # Its workers are told where it went, and end by themselves.
    assert keeper.wait(START_SECONDS) == WRONG_USAGE
    assert re.search("(being|was) moved to", keeper.log)
    assert "does not answer" not in keeper.log

    app.registry.move_to(place.url)
    child: Handle = JobHandle(app.client, json.loads(str(place.job(parent).result)))
    assert json.loads(out)["jobs"] == len([*kept, parent, lost, child, *waiting])
    place.worker(settings=Settings(lease=10.0))
    late: Handle = quick.enqueue()
    jobs = [*kept, parent, lost, child, *waiting, late]
    place.until_final(jobs)
    assert {place.job(job).state for job in jobs} == {State.SUCCEEDED}
    assert {len(place.attempts(job)) for job in (*kept, parent, *waiting)} == {1}
    assert {place.job(job).counters for job in (*kept, parent, child, *waiting)} == {(0, 0, 0)}
    assert place.job(lost).counters == (0, 1, 0)
    first, last = (each.token for each in place.attempts(lost))
    assert first < last == place.job(lost).token
    assert_no_orphans(place)
