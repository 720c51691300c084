"""The suite itself: no backend runs fewer tests than another."""

from collections import Counter

import pytest
from contract.driver import BACKENDS


def test_every_backend_runs_the_same_tests(request: pytest.FixtureRequest) -> None:
    collected: Counter[str] = Counter()
    for item in request.session.items:
        spec = getattr(item, "callspec", None)
        if spec is not None and "backend" in spec.params:
            collected[spec.params["backend"]] += 1
    assert set(collected) in (set(), set(BACKENDS))
    assert len(set(collected.values())) <= 1, collected
