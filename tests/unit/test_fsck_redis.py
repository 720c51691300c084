"""Every invariant of the Redis store has a corruption that it finds, as for SQLite."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from contract.driver import EVERY_BACKEND
from unit.furnished import furnish

from limpet.storage.redis.invariants import RULES
from limpet.storage.redis.store import RedisStore

CORRUPTIONS = Path(__file__).parent / "corruptions_redis"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["redis"](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(url)) as store:
        furnish(store)
        yield store


def test_every_invariant_has_a_corruption() -> None:
    assert {file.stem for file in CORRUPTIONS.glob("*.lua")} == set(RULES)


@pytest.mark.parametrize("invariant", RULES)
def test_fsck_finds_the_corruption_and_names_it(
    store: RedisStore, url: str, invariant: str
) -> None:
    parts = [CORRUPTIONS / "include" / "some.lua", CORRUPTIONS / f"{invariant}.lua"]
    with closing(redis.Redis.from_url(url)) as raw:
        raw.eval("\n".join(part.read_text() for part in parts), 1, "{limpet}:")
    broken = {each.invariant: each for each in store.invariants()}
    assert invariant in broken
    assert broken[invariant].count >= 1
    assert broken[invariant].example
