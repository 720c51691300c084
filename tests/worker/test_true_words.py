"""The log counts and measures what really happened."""

from contextlib import closing

import apsw
import pytest
from machine import crowded
from worker.place import Place, until

from limpet.domain.cause import StoreOutage
from limpet.domain.session import Session

SOURCE = """
import time
from limpet import App, Context
app = App("sqlite://")

@app.task
def waits(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(0.01)
    ctx.check_cancelled()

@app.task
def ignores() -> None:
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ((), "0 jobs were"),
        (("waits",), "1 job was"),
        (("ignores",), "1 job was"),
        (("waits", "ignores"), "2 jobs were"),
    ],
)
def test_every_job_that_was_handed_back_is_counted(
    place: Place, tasks: tuple[str, ...], told: str
) -> None:
    target = place.module(SOURCE)
    worker = place.worker("--drain", "0.1s", "--lanes", "2", target=target)
    jobs = [place.hand_in(name, "{}") for name in tasks]
    until(lambda: all(place.job(job).begun for job in jobs))
    assert worker.stop() == 0
    (line,) = worker.log("worker_stopped")
    assert line["message"] == f"stopped; {told} handed back"


def test_an_outage_is_told_for_as_long_as_it_was(place: Place) -> None:
    """Somebody else writes for longer than the lease: the renewal waits, and raises nothing."""
    lease, margin, renewal = 3.0, 1.0, 0.6
    place.worker("--lease", f"{lease:g}s")
    (before,) = place.store.sessions()
    with closing(apsw.Connection(str(place.folder / "jobs.db"))) as other:
        # The worker may be writing just now.
        other.set_busy_timeout(10_000)
        other.execute("BEGIN IMMEDIATE")
        place.last.until_logged("session_over")
        other.execute("ROLLBACK")

    def dead() -> Session | None:
        found = place.store.sessions(with_dead=True)
        return next((s for s in found if s.id == before.id and s.cause is not None), None)

    cause = until(dead).cause
    assert isinstance(cause, StoreOutage)
    assert lease - margin - renewal - 0.1 <= cause.seconds <= lease * crowded()
