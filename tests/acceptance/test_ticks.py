"""Two schedulers in processes of their own; `make prove` runs the same for a thousand ticks."""

from pathlib import Path

import pytest
from ticks import run


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_each_tick_is_fired_once_whoever_is_killed(tmp_path: Path, store: str) -> None:
    found = run(store, 30, 2, tmp_path)
    assert found.troubles == []
    assert (found.jobs, found.fired, found.kills) == (30, 30, 2)
