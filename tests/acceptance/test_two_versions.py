"""Workers of two versions on one store: each claims, settles and recovers what the other left.

The next version is made from this one: a higher number, one more step of the schema, and functions
of its own name.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis
from lifecycle.modes import BEST, TESTS, Case
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Place
from lifecycle.tasks import quick, steady
from lifecycle.tree import Settings

import limpet
from limpet.domain.errors import SchemaMismatch
from limpet.domain.state import State
from limpet.storage.postgres import schema as postgres_schema
from limpet.storage.redis import schema as redis_schema
from limpet.storage.registry import open_store

STEP = "ALTER TABLE limpet.job ADD COLUMN remark text;\nCREATE TABLE limpet.remark (id text);\n"
# So few at a time that four jobs take both. Nothing here waits for a lease to end, and a process
# that a busy machine leaves out for a fourth of it is ended by its timer: of 3 s, that happened.
AT_ONCE = 2
SETTINGS = Settings(lease=10.0, lanes=1, async_jobs=AT_ONCE)


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the next version."""
    folder = tmp_path_factory.mktemp("later")
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    source = Path(limpet.__file__).parent
    shutil.copytree(source, folder / "limpet", ignore=shutil.ignore_patterns("__pycache__"))
    ours = folder / "limpet" / "storage" / "postgres"
    number = postgres_schema.NEWEST + 1
    (ours / "migrations" / f"{number:04}_later.sql").write_text(STEP)
    for script in (*(ours / "functions").glob("*.sql"), *(ours / "sql").glob("*.sql")):
        _swap(script, r"\bv\d+_", f"v{number}_")
    _swap(ours / "schema.py", r"^NEWEST = \d+", f"NEWEST = {number}")
    _swap(ours / "schema.py", r"^OLDEST = \d+", f"OLDEST = {number}")
    ours = folder / "limpet" / "storage" / "redis"
    number = redis_schema.NEWEST + 1
    _swap(ours / "schema.py", r"^NEWEST = \d+", f"NEWEST = {number}")
    _swap(ours / "schema.py", r"^OLDEST = \d+", f"OLDEST = {number}")
    # Its scripts are others, under other names.
    for script in (ours / "lua").glob("*.lua"):
        script.write_text(script.read_text().replace("\nreturn ", "\nlocal later = 2\nreturn "))
    return folder


def _swap(file: Path, old: str, new: str) -> None:
    text, number = re.subn(old, new, file.read_text(), flags=re.MULTILINE)
    assert number or file.suffix == ".sql", file
    file.write_text(text)


@pytest.fixture(params=["redis", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    umask = os.umask(0)
    made = Place.make(Case(BEST, request.param))
    try:
        yield made
    finally:
        os.umask(umask)
        made.clear()


def said(source: Path | None, *words: str) -> "subprocess.CompletedProcess[str]":
    """What the command line of that version says."""
    path = f"{source}:{TESTS}" if source else str(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "limpet.cli.main", *words],
        env={**os.environ, "PYTHONPATH": path}, cwd="/", capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def served_by(place: Place, jobs: list[str]) -> set[str]:
    """The names of the workers that finished the jobs, without their numbers."""
    sessions = {each.id: each.name for each in place.store.sessions(with_dead=True)}
    found = [place.store.job(job) for job in jobs]
    assert all(job is not None and job.state is State.SUCCEEDED for job in found)
    return {sessions[job.session or ""].rstrip("0123456789") for job in found if job}


def test_workers_of_two_versions_work_side_by_side(place: Place, later: Path) -> None:
    old = place.worker("old", SETTINGS)
    assert quick.enqueue(1).result(timeout=30) == 1
    refused = said(later, "queues", "--url", place.url)
    assert refused.returncode != 0
    assert "made by an older Limpet" in refused.stderr
    assert "limpet migrate" in refused.stderr

    # The older one goes on while the store is brought up to date under it.
    through = [steady.enqueue(word="migrated") for _ in range(AT_ONCE)]
    place.until_begun(*through)
    migrated = said(later, "migrate", "--url", place.url)
    assert migrated.returncode == 0, migrated.stderr
    new = place.worker("new", SETTINGS, later)
    place.say("migrated")
    place.until_final(through)
    assert served_by(place, [job.id for job in through]) == {"old"}
    both = [steady.enqueue(word="both") for _ in range(2 * AT_ONCE)]
    place.until_begun(*both)
    place.say("both")
    many = [steady.enqueue(seconds=0.05) for _ in range(40)]
    place.until_final([*both, *many], 60)
    assert served_by(place, [job.id for job in both]) == {"old", "new"}
    assert served_by(place, [job.id for job in many]) <= {"old", "new"}
    assert len(place.session(old).id) > 0
    assert "session_over" not in old.log + new.log

    # What dies with one is recovered by the other, both ways.
    for dead, source in ((old, None), (new, later)):
        lost = [steady.enqueue(seconds=1.0) for _ in range(4)]
        place.until_begun(*lost)
        dead.kill_tree()
        place.until_final(lost, 30)
        if dead is old:
            old = place.worker("old", SETTINGS, source)
    place.stop([old])
    assert place.store.invariants() == ()
    assert said(later, "fsck", "--url", place.url).returncode == 0
    assert_no_orphans(place)


def test_code_that_is_too_old_for_a_store_is_refused(place: Place, later: Path) -> None:
    assert said(later, "migrate", "--url", place.url).returncode == 0
    kind = postgres_schema.NEWEST if place.store_kind == "postgres" else redis_schema.NEWEST
    newer = kind + 1
    with closing(open_store(place.url)) as store:
        assert store.info().schema_version == newer
    # As a version says that has left this one behind.
    if place.store_kind == "postgres":
        server, _, schema = place.url.partition("?schema=")
        with psycopg.connect(server, autocommit=True) as raw:
            raw.execute(f'UPDATE "{schema}".store SET oldest_allowed = {newer}'.encode())
    else:
        server, _, namespace = place.url.partition("?namespace=")
        with redis.Redis.from_url(server) as client:
            client.hset(f"{{{namespace}}}:store", "oldest_allowed", str(newer))
    with closing(open_store(place.url)) as store, pytest.raises(SchemaMismatch, match="newer"):
        store.pause("email")
    worker = said(None, "worker", "lifecycle.app:app", "--url", place.url)
    assert worker.returncode != 0
    assert "Upgrade Limpet here" in worker.stderr
    assert said(later, "queues", "--url", place.url).returncode == 0
    place.judged = True
