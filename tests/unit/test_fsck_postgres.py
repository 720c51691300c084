"""Every invariant of the PostgreSQL store has a corruption that it finds, as for SQLite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from contract.driver import EVERY_BACKEND
from unit.furnished import furnish

from limpet.storage.postgres.invariants import names
from limpet.storage.postgres.store import PostgresStore

CORRUPTIONS = Path(__file__).parent / "corruptions_postgres"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["postgres"](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        furnish(store)
        yield store


def test_every_invariant_has_a_corruption() -> None:
    assert {file.stem for file in CORRUPTIONS.glob("*.sql")} == set(names())


@pytest.mark.parametrize("invariant", names())
def test_fsck_finds_the_corruption_and_names_it(
    store: PostgresStore, url: str, invariant: str
) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as raw:
        raw.execute((CORRUPTIONS / f"{invariant}.sql").read_bytes())
    (broken,) = store.invariants()
    assert broken.invariant == invariant
    assert broken.count >= 1
    assert broken.sentence
    assert broken.example
