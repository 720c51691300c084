"""A place for each test, in each mode."""

import os
from collections.abc import Generator, Iterator

import pytest
from lifecycle.modes import BEST, OTHER_STORES, Case, Mode
from lifecycle.network import LONG
from lifecycle.place import FAILED, Place

USUAL = [mode for mode in Mode if mode is not Mode.PLAIN]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say in which modes, and on which stores, each test is run.

    What a module promises for every store (`EVERY_STORE = True`) is tried on each of them in one
    mode, but for tests that look into a SQLite file, or ask what no store has a part in. A store
    that a mark `prove_on` names is left to `make prove`. So is root without a pid namespace, but in
    a module about what that is for (`EVERY_MODE = True`): it contains a worker as that of any other
    user is contained, which each test is tried with.
    """
    every = getattr(metafunc.module, "EVERY_STORE", False)
    alone = any(map(metafunc.definition.get_closest_marker, ("of_sqlite", "one_store")))
    others = [Case(BEST, kind) for kind in OTHER_STORES] if every and not alone else []
    left = metafunc.definition.get_closest_marker("prove_on")
    later = () if left is None or LONG else left.args
    if "place" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("modes")
        all_modes = LONG or getattr(metafunc.module, "EVERY_MODE", False)
        modes = (list(Mode) if all_modes else USUAL) if only is None else only.args
        cases = [*(Case(mode) for mode in modes), *others]
        metafunc.parametrize("case", [each for each in cases if each.store not in later], ids=str)
    elif "one_place" in metafunc.fixturenames:
        metafunc.parametrize("case", [Case(BEST), *others], ids=str)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without root's rights some modes are not there; with them, one that is not is a failure."""
    if os.geteuid() == 0:
        return
    left_out = [item for item in items if _missing(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_report_header() -> list[str]:
    missing = [f"{mode} ({mode.missing})" for mode in Mode if mode.missing]
    return [f"modes of the lifecycle tests that are not there: {', '.join(missing)}"] * bool(
        missing
    )


def _missing(item: pytest.Item) -> bool:
    spec = getattr(item, "callspec", None)
    case = spec.params.get("case") if spec is not None else None
    return isinstance(case, Case) and case.mode.missing is not None


def _made(request: pytest.FixtureRequest, case: Case) -> Iterator[Place]:
    if case.mode.missing:
        pytest.fail(f"{case.mode}: {case.mode.missing}")
    # What the test makes must be open to a worker of another user.
    umask = os.umask(0)
    place = Place.make(case)
    try:
        yield place
        failed = request.node.stash.get(FAILED, True)
        if failed:
            print(*place.describe(), sep="\n")
        assert failed or place.judged, "a lifecycle test ends in assert_no_orphans"
    finally:
        os.umask(umask)
        place.clear()


@pytest.fixture
def place(request: pytest.FixtureRequest, case: Case) -> Iterator[Place]:
    """A folder, a store and workers, once for each mode."""
    yield from _made(request, case)


@pytest.fixture
def one_place(request: pytest.FixtureRequest, case: Case) -> Iterator[Place]:
    """The same in one mode only, for what does not depend on it."""
    yield from _made(request, case)
