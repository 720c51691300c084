"""Judges the whole run: every backend passed the same tests, and no test was left out.

What takes long comes first, so that no process is left with it alone at the end.
"""

import pytest
from contract.driver import BACKENDS
from equality import Equality
from hypothesis import settings

pytest_plugins = ["pytester"]

LONG = {"test_model.py", "lifecycle", "worker"}


# On a machine that others use too, how long an example takes says nothing about the code.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        Equality(config, frozenset(BACKENDS), config.rootpath / "tests" / "contract")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.isdisjoint({item.path.name, item.path.parent.name}))
