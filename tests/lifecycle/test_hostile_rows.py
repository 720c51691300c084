"""Nonsense that somebody wrote into the store does not stop a worker, nor hide anything."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from contract.hostile import writer_for
from lifecycle.app import app
from lifecycle.modes import BEST
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, Place
from lifecycle.tasks import quick, quick_sync

from limpet import JobHandle
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.session import NewSession, SessionKind, SessionLock
from limpet.domain.state import State

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

_EACH = """
import json, sys
from limpet.cli.main import main
sys.exit(max(main(words) for words in json.loads(sys.argv[1])))
"""

# What the cause of a quarantine says, by what was written where.
JOBS = {
    ("job.options", "{"): "options",
    ("job.options", "[]"): "options",
    ("job.options", '{"timeout": "soon"}'): "timeout",
    ("job.options", '{"retry": 7}'): "retry",
    ("job.args", "{"): "argument",
    ("job.args", "7"): "argument",
    ("job.secrets", '{"a": 1}'): "secrets",
}


def commands(place: Place, *every: list[str]) -> str:
    """What some commands print; each must go well."""
    told = json.dumps([[*words, "--url", place.url] for words in every])
    done = subprocess.run(
        [sys.executable, "-c", _EACH, told], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.modes(BEST)
def test_worker_puts_aside_what_it_cannot_read_and_does_the_rest(
    place: Place,
) -> None:
    tasks: list[Callable[[], JobHandle[int]]] = [quick.enqueue, quick_sync.enqueue]
    bad = {task().id: each for each in JOBS for task in tasks}
    good = [task() for task in tasks]
    vanished = NewSession(
        IdSource(SystemClock()).new(), SessionKind.WORKER, "vanished", "elsewhere", 1,
        timedelta(seconds=1), lock=SessionLock("/nowhere", 1, "nonce"), schedules=frozenset({"x"}),
    )  # fmt: skip
    place.store.register(vanished)
    app.schedules.upsert("broken", quick.call(), every="1s")
    app.schedules.upsert("ticking", quick.call(), every="1s")
    with writer_for(place.store) as writer:
        for job, (field, value) in bad.items():
            writer.write(field, job, value)
        for field in ("lock", "schedules", "pools"):
            writer.write(f"session.{field}", vanished.id, '{"x": [')
        writer.write("schedule.definition", "broken", '{"task": 7}')
    worker = place.worker()
    assert [job.result(timeout=PATIENCE_SECONDS) for job in good] == [0, 0]

    def put_aside() -> bool:
        return set(place.store.states(list(bad)).values()) == {State.QUARANTINED}

    place.until(put_aside, PATIENCE_SECONDS, "all that cannot be read is put aside")

    def ticks() -> bool:
        found = place.store.schedule("ticking")
        return found is not None and found.fired > 0

    place.until(ticks, PATIENCE_SECONDS, "the other schedule ticks")

    assert "session_over" not in worker.log
    assert "Traceback" not in worker.log
    assert "row_unreadable" in worker.log or "cannot be read" in worker.log
    for job, where in bad.items():
        error = place.store.job(job)
        assert error is not None
        assert JOBS[where] in str(error.error), where
    shown = commands(place, ["workers", "--all"], ["jobs"], ["schedules"], ["queues"], *(
        ["job", "show", job] for job in bad
    ))  # fmt: skip
    assert vanished.id in shown
    assert "unreadable: " in shown
    app.schedules.pause("ticking")
    for job in bad:
        place.store.repair(job, "{}", 1, ())
    place.until(lambda: place.unfinished() == 0, PATIENCE_SECONDS, "what was repaired is done")
    assert set(place.store.states(list(bad)).values()) == {State.SUCCEEDED}
    assert_no_orphans(place)
