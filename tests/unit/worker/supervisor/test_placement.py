"""Who has a place, and who could have one."""

from types import SimpleNamespace
from typing import Any

from limpet.domain.worker_settings import WorkerSettings
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.placement import Placement
from limpet.worker.wire.frames import LANE, LOOP
from limpet.worker.wire.plan import Plan


def executor(kind: str, *jobs: str, for_suspect: bool = False) -> Any:
    return SimpleNamespace(
        kind=kind, pool=LOOP if for_suspect else kind, holds=dict.fromkeys(jobs),
        for_suspect=for_suspect, takes_more=True, is_alive=True, retiring=False,
    )  # fmt: skip


def placement(*executors: Any, lanes: int = 2) -> Placement:
    stub: Any = SimpleNamespace(
        by_number=dict(enumerate(executors)),
        of_kind=lambda kind: [each for each in executors if each.kind == kind],
    )
    return Placement(
        stub,
        Plan("app:app", settings=WorkerSettings(lanes=lanes, async_jobs=10)),
        files=1_000,
        ledger=Ledger(),
    )


def test_a_job_takes_a_place_wherever_it_is() -> None:
    """Given to an executor, waiting for one, or alone in a lane because it is a suspect."""
    there = placement(executor(LOOP, "a", "b"), executor(LANE, "c", for_suspect=True))
    there.waiting[LOOP].append(SimpleNamespace())  # type: ignore[arg-type]
    assert there.free_places(LOOP) == (4, 6, True)
    assert there.free_places(LANE) == (0, 2, False)


def test_a_lane_that_may_be_started_is_room_and_one_that_may_not_is_none() -> None:
    there = placement(executor(LANE, "a"), lanes=3)
    assert there.free_places(LANE) == (1, 2, True)
    there.may_start = False
    assert there.free_places(LANE) == (1, 0, True)
    assert there.free_places(LOOP) == (0, 0, False)


def test_the_lane_of_a_suspect_is_no_room_for_others() -> None:
    there = placement(executor(LANE), executor(LANE, for_suspect=True), executor(LANE, "a"))
    assert there.idle(LANE) == 1
