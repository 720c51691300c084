"""The thread that exchanges: what makes it, and that no ring is missed."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from limpet.storage.pipe_bell import PipeBell
from limpet.worker.supervisor.exchanger import Exchange, Exchanger

_SECONDS = 10


def until(true: Callable[[], bool]) -> None:
    """Wait without letting the event loop go on."""
    give_up = time.monotonic() + _SECONDS
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.001)


class Place:
    """An exchanger with a bell, and what came of its rings."""

    def __init__(self) -> None:
        self.exchanger = Exchanger()
        self.bell = PipeBell()
        self.rings = 0
        self.made: list[str] = []
        self.exchanger.listen(self.bell, self._rang)

    def _rang(self) -> None:
        self.rings += 1

    def exchange(self, name: str, during: Callable[[], object] = lambda: None) -> Exchange:
        def make() -> str:
            during()
            return name

        return Exchange(make, lambda: self.made.append(name))


def in_loop(test: Callable[[Place], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(Place()), _SECONDS)

    asyncio.run(run())


def test_what_stands_by_is_made_when_the_bell_rings_though_the_loop_is_busy() -> None:
    async def test(place: Place) -> None:
        exchange = place.exchange("by itself")
        place.exchanger.stand_by(exchange)
        place.bell.ring()
        until(lambda: bool(place.made))
        assert await exchange.answer == "by itself"
        assert not place.exchanger.withdraw()
        assert place.rings == 0

    in_loop(test)


def test_what_was_withdrawn_is_not_made_and_the_loop_hears_the_bell() -> None:
    async def test(place: Place) -> None:
        place.exchanger.stand_by(place.exchange("by itself"))
        assert place.exchanger.withdraw()
        place.bell.ring()
        while not place.rings:
            await asyncio.sleep(0.001)
        assert place.made == []

    in_loop(test)


def test_a_ring_during_an_exchange_is_kept_for_the_one_that_stands_by_next() -> None:
    async def test(place: Place) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def during() -> None:
            begun.set()
            assert go_on.wait(_SECONDS)

        told = place.exchange("told", during)
        place.exchanger.make(told)
        assert begun.wait(_SECONDS)
        place.bell.ring()
        place.exchanger.stand_by(next_one := place.exchange("next"))
        go_on.set()
        assert await told.answer == "told"
        assert await next_one.answer == "next"
        assert place.made == ["told", "next"]

    in_loop(test)


def test_what_is_told_goes_before_what_stands_by() -> None:
    async def test(place: Place) -> None:
        place.exchanger.stand_by(place.exchange("by itself"))
        place.exchanger.make(told := place.exchange("told"))
        assert await told.answer == "told"
        assert place.made == ["told"]
        assert place.exchanger.withdraw()

    in_loop(test)


def test_an_error_is_the_answer_and_the_thread_goes_on() -> None:
    async def test(place: Place) -> None:
        def fail() -> None:
            raise OSError("cut")

        place.exchanger.make(failed := place.exchange("failed", fail))
        with pytest.raises(OSError, match="cut"):
            await failed.answer
        place.exchanger.make(later := place.exchange("later"))
        assert await later.answer == "later"

    in_loop(test)
