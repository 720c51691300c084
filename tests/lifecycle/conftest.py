"""A place for each test, in each mode."""

import os
from collections.abc import Generator, Iterator

import pytest
from lifecycle.modes import BEST, Mode
from lifecycle.place import Place

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


def _made(request: pytest.FixtureRequest, mode: Mode) -> Iterator[Place]:
    if mode.missing:
        pytest.skip(mode.missing)
    # What the test makes must be open to a worker of another user.
    umask = os.umask(0)
    place = Place.make(mode)
    try:
        yield place
        failed = request.node.stash.get(_FAILED, True)
        if failed:
            print(*place.describe(), sep="\n")
        assert failed or place.judged, "a lifecycle test ends in assert_no_orphans"
    finally:
        os.umask(umask)
        place.clear()


@pytest.fixture(params=list(Mode), ids=str)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A folder, a store and workers, once for each mode."""
    yield from _made(request, request.param)


@pytest.fixture
def one_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The same in one mode only, for what does not depend on it."""
    yield from _made(request, BEST)
