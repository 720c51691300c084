"""Every invariant has a corruption that it finds; the corruptions are beside, one file for each."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest
from unit.furnished import furnish

from limpet.storage.sqlite.invariants import names
from limpet.storage.sqlite.store import SqliteStore

CORRUPTIONS = Path(__file__).parent / "corruptions"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with closing(SqliteStore(f"sqlite:///{path}")) as store:
        furnish(store)
    return path


def test_every_invariant_has_a_corruption() -> None:
    assert {file.stem for file in CORRUPTIONS.glob("*.sql")} == set(names())


@pytest.mark.parametrize("invariant", names())
def test_fsck_finds_the_corruption_and_names_it(path: Path, invariant: str) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute((CORRUPTIONS / f"{invariant}.sql").read_text())
    with closing(SqliteStore(f"sqlite:///{path}")) as store:
        (broken,) = store.invariants()
    assert broken.invariant == invariant
    assert broken.count >= 1
    assert broken.sentence
    assert broken.example
