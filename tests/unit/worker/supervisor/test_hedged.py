"""A request that is sent again while its answer is late, and connections kept for that."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from limpet.domain.errors import SessionLost, StoreUnreachable
from limpet.storage.idle import Idle
from limpet.worker.supervisor.hedged import MOST_AT_ONCE, first_answer

LATE_SECONDS = 0.01


class Answers:
    """Each request has its own answer: a word, an error, or None for none before `release`."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self._answers = answers
        self.sent = 0
        self.release = asyncio.Event()

    async def send(self) -> str:
        answer = self._answers[self.sent]
        self.sent += 1
        if answer is None:
            await self.release.wait()
            return "late"
        if isinstance(answer, Exception):
            raise answer
        return answer


def asked(*answers: str | Exception | None) -> tuple[str, int]:
    """What comes of it, and how many requests were sent."""

    async def ask() -> tuple[str, int]:
        some = Answers(*answers)
        answer = await first_answer(some.send, LATE_SECONDS)
        some.release.set()
        return answer, some.sent

    return asyncio.run(asyncio.wait_for(ask(), 10))


CUT = StoreUnreachable("cut")


@pytest.mark.parametrize(
    ("answers", "sent"),
    [
        (["first"], 1),
        ([None, "first"], 2),
        ([None, None, "first"], 3),
        ([None, CUT, "first"], 3),
    ],
    ids=["at once", "one is late", "two are late", "one is late and one is cut"],
)
def test_first_answer_counts(answers: Sequence[str | Exception | None], sent: int) -> None:
    assert asked(*answers) == ("first", sent)


def test_a_store_that_cannot_be_reached_is_said_when_nobody_can_be_answered_any_more() -> None:
    with pytest.raises(StoreUnreachable):
        asked(CUT)


def test_what_the_store_says_for_good_is_not_waited_for_others_to_say() -> None:
    with pytest.raises(SessionLost):
        asked(None, SessionLost("dead"))


def test_no_more_requests_than_that_wait_at_the_same_time() -> None:
    async def ask() -> tuple[str, int]:
        some = Answers(*[None] * 10)
        asyncio.get_running_loop().call_later(LATE_SECONDS * 10, some.release.set)
        return await first_answer(some.send, LATE_SECONDS), some.sent

    assert asyncio.run(ask()) == ("late", MOST_AT_ONCE)


def test_one_connection_more_is_wanted_than_were_ever_in_use_at_once() -> None:
    idle = Idle(3, "", in_turn=True)
    assert idle.take() is None
    idle.give_back("one")
    assert idle.wants_spare()
    assert not idle.wants_spare(), "it is being opened"
    idle.add_spare("two")
    assert not idle.wants_spare()
    assert [idle.take(), idle.take()] == ["one", "two"]
    idle.give_back("one")
    assert idle.wants_spare()
    idle.add_spare(None)
    assert idle.wants_spare(), "that one could not be opened"
    idle.add_spare("three")
    assert [idle.take(), idle.take()] == ["one", "three"]
    idle.give_back("one")
    assert not idle.wants_spare(), "no more may be open"


def test_connections_for_renewals_are_used_in_turn() -> None:
    idle = Idle(3, "", in_turn=True)
    for _ in range(2):
        assert idle.take() is None
    for name in ("one", "two"):
        idle.give_back(name)
    used = []
    for _ in range(4):
        used.append(idle.take())
        idle.give_back(used[-1])
    assert used == ["one", "two", "one", "two"]


def test_connections_that_had_an_answer_since_are_kept() -> None:
    idle = Idle(3, "")
    for _ in range(2):
        idle.take()
    idle.give_back("silent")
    began = time.monotonic()
    idle.give_back("good")
    assert idle.empty(began) == ["silent"]
    assert idle.take() == "good"
