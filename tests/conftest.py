"""Judges the whole run: every backend passed the same tests, and no test was left out."""

import pytest
from contract.driver import BACKENDS
from equality import Equality

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        Equality(config, frozenset(BACKENDS), config.rootpath / "tests" / "contract")
    )
