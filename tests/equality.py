"""Every backend passed the same tests, and none was skipped or expected to fail.

Judged when a run is over, from the reports of all its tests, by the process that gathers them, so
also when several processes run them. What is left out on purpose is not judged: a run of chosen
files or names says nothing about the others. A test that cannot be tried on a backend says so with
the mark `not_on`, and is left out of the comparison for that backend alone.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

# Names the stores that the contract is run on, where not all are asked for.
STORES = "LIMPET_TEST_STORES"
_MOST_SHOWN = 20


def of_backend(item: pytest.Item, backends: frozenset[str]) -> tuple[str, str, list[str]] | None:
    """The backend that a test is for, the test's name without it, and where it cannot be tried."""
    spec = getattr(item, "callspec", None)
    for value in spec.params.values() if spec is not None else ():
        if isinstance(value, str) and value in backends:
            # A parameter stands between brackets and dashes, so one name cannot hide in another.
            name = re.sub(rf"(?<=[\[-]){re.escape(value)}(?=[\]-])", "*", item.nodeid, count=1)
            never = [str(mark.args[0]) for mark in item.iter_markers("not_on")]
            return value, name, never
    return None


class Equality:
    """A plugin that fails a run in which one backend passed fewer tests than another."""

    def __init__(self, config: pytest.Config, backends: frozenset[str], folder: Path) -> None:
        """`folder`: where the tests are that every backend must pass."""
        self._config = config
        self._backends = backends
        self._folder = folder
        self._gathers = not hasattr(config, "workerinput")
        self._passed: dict[str, set[str]] = defaultdict(set)
        self._never: dict[str, set[str]] = defaultdict(set)
        self._failed: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._troubles: list[str] = []

    # -- in the processes that run tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if not item.path.is_relative_to(self._folder):
                continue  # what is said there of a backend need not be so of all
            if found := of_backend(item, self._backends):
                # Goes with each report, also from another process.
                item.user_properties.append(("equality", list(found)))

    # -- in the process that gathers the reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or hasattr(report, "wasxfail"):
            why = getattr(report, "wasxfail", None)
            told = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self._left_out[report.nodeid] = str(told) if why is None else f"xfail: {why}"
        for name, value in report.user_properties:
            if name != "equality":
                continue
            backend, test, never = cast("tuple[str, str, list[str]]", value)
            if report.when == "call" and report.passed:
                self._passed[backend].add(test)
                for other in never:
                    self._never[other].add(test)
            elif report.failed:  # also while it is cleared away, after it has passed
                self._passed[backend].discard(test)
                self._failed.add(test)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._left_out[report.nodeid] = str(report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._gathers or self._config.option.collectonly:
            return
        self._troubles = list(self._judged(session))
        if self._troubles and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._gathers:
            return
        if self._troubles:
            terminalreporter.section("the backends are not equal", red=True)
            for trouble in self._troubles:
                terminalreporter.write_line(trouble)
        elif self._is_whole() and self._passed:
            shared = len(set.intersection(*self._passed.values()))
            said = f"each of {', '.join(sorted(self._backends))} passed the same {shared} tests"
            for backend, tests in sorted(self._never.items()):
                said += f"; {len(tests)} more cannot be tried on {backend}"
            terminalreporter.write_line(said)

    # -- the judgement

    def _judged(self, session: pytest.Session) -> Iterator[str]:
        if not self._is_chosen():
            for test, why in self._left_out.items():
                yield f"{test} was left out: {why}"
        if not self._is_whole() or session.shouldstop or session.shouldfail:
            return
        every = self._failed.union(*self._passed.values())
        for backend in sorted(self._backends):
            missing = sorted(every - self._passed[backend] - self._never.get(backend, set()))
            if not every:
                yield f"{backend} passed no test in {self._folder.name}"
            for test in missing[:_MOST_SHOWN]:
                yield f"{backend} did not pass {test}"
            if len(missing) > _MOST_SHOWN:
                yield f"{backend} did not pass {len(missing) - _MOST_SHOWN} more"

    def _is_chosen(self) -> bool:
        """Whether somebody asked for some tests only, by their names or by what they did."""
        option = self._config.option
        return bool(
            option.keyword
            or option.markexpr
            or option.deselect
            or option.ignore
            or option.ignore_glob
            or getattr(option, "lf", False)
            or getattr(option, "stepwise", False)
            or STORES in os.environ
        )

    def _is_whole(self) -> bool:
        """Whether all tests of the folder were asked for."""
        if self._is_chosen():
            return False
        asked = [self._config.invocation_params.dir / each for each in self._config.args]
        return any(self._folder.is_relative_to(each.resolve()) for each in asked)
