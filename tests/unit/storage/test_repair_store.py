"""What is broken and can be derived from the jobs is repaired, and no job goes."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest
import redis
from contract.driver import EVERY_BACKEND
from unit.furnished import furnish

from limpet.domain.job import JobFilter
from limpet.storage.contract.store import Store
from limpet.storage.redis.layout import in_numbers
from limpet.storage.registry import open_store

HERE = Path(__file__).parent
OF_SQLITE = [
    "place_in_line",
    "lapse_is_earliest",
    "blocked_has_reason",
    "gauges_are_right",
    "holdings",
    "relaunch_is_of_failed",
    "key_has_turn",
    "turn_is_used",
    "turn_is_given",
    "permit_is_held",
]
OF_REDIS = [
    "place_in_line",
    "lapse_is_earliest",
    "blocked_has_reason",
    "gauges_are_right",
    "holdings",
    "line_is_listed",
    "request_is_listed",
    "tasks_are_known",
    "widowed_has_jobs",
    "ready_has_turn",
    "turns_are_counted",
    "relaunch_of_failed",
    "schedule_ticks",
    "permit_is_held",
]

OF_POSTGRES = [
    "place_in_line",
    "blocked_has_reason",
    "mark_is_of_its_lease",
    "holdings",
    "counts_are_right",
    "place_in_key",
    "relaunch_is_of_failed",
    "turn_is_given",
    "turn_is_used",
    "turns_are_counted",
]


def corrupt_sqlite(path: Path, rule: str) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute((HERE / "corruptions" / f"{rule}.sql").read_text())


def corrupt_redis(url: str, rule: str) -> None:
    folder = HERE / "corruptions_redis"
    parts = [folder / "include" / "some.lua", folder / f"{rule}.lua"]
    with closing(redis.Redis.from_url(url)) as raw:
        script = in_numbers("\n".join(part.read_text() for part in parts))
        raw.eval(script, 1, "{limpet}:")


def corrupt_postgres(url: str, rule: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as raw:
        raw.execute((HERE / "corruptions_postgres" / f"{rule}.sql").read_bytes())


def assert_repaired(store: Store, rule: str, corrupt: Callable[[], None]) -> None:
    before = {job.id for job in store.jobs(JobFilter(), limit=1000).jobs}
    corrupt()
    assert rule in {each.invariant for each in store.invariants()}
    repaired = {each.invariant: each.count for each in store.repair_store()}
    assert repaired[rule] >= 1
    store.promote()
    assert store.invariants() == ()
    assert store.repair_store() == ()
    assert {job.id for job in store.jobs(JobFilter(), limit=1000).jobs} == before
    counted = {each.move: each.count for each in store.totals() if each.queue == "*"}
    assert counted[f"mend:{rule}"] == repaired[rule]


@pytest.mark.parametrize("rule", OF_SQLITE)
def test_sqlite_repairs_what_the_jobs_show(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "jobs.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        furnish(store)
        assert_repaired(store, rule, lambda: corrupt_sqlite(path, rule))


@pytest.fixture
def redis_url(tmp_path: Path) -> str:
    return EVERY_BACKEND["redis"](tmp_path)


@pytest.mark.parametrize("rule", OF_REDIS)
def test_redis_repairs_what_the_jobs_show(redis_url: str, rule: str) -> None:
    with closing(open_store(redis_url)) as store:
        furnish(store)
        assert_repaired(store, rule, lambda: corrupt_redis(redis_url, rule))


@pytest.mark.parametrize("rule", OF_POSTGRES)
def test_postgres_repairs_what_the_jobs_show(tmp_path: Path, rule: str) -> None:
    url = EVERY_BACKEND["postgres"](tmp_path)
    with closing(open_store(url)) as store:
        furnish(store)
        assert_repaired(store, rule, lambda: corrupt_postgres(url, rule))
