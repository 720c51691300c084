"""The supervisor's side of the zygote, with real processes in its place."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from machine import crowded
from unit.bare_executor import RUNNING, bare, claimed

from limpet.domain.cause import Unknown, cause_of
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.supervisor.store_line import SessionOver
from limpet.worker.wire import frames
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.plan import ANEW, Plan


class Moving:
    """Executors whose zygote reports that it goes on as another process."""

    def __init__(self, processes: list["subprocess.Popen[bytes]"]) -> None:
        self.old, self.new = processes
        self.garbled: list[NotUnderstood] = []
        self.deaths: list[int | None] = []
        self.parts = SessionParts()
        asyncio.get_running_loop().set_exception_handler(self.parts.callback_failed)
        listener: Any = SimpleNamespace(
            on_app=lambda frame: None,
            on_zygote_death=self.deaths.append,
            on_garbled_zygote=self.garbled.append,
        )
        self.executors = Executors(Plan("shop:app"), "s", 0, 0, listener)
        self.executors._channel, self.zygote = socket.socketpair()
        for sock in (self.executors._channel, self.zygote):
            sock.setblocking(False)
        self.executors._pid, self.executors._expects_place = self.old.pid, True
        asyncio.get_running_loop().add_reader(self.executors._channel, self.executors._read_zygote)

    def say(self, frame: frames.FromZygote) -> None:
        self.zygote.sendall(frames.pack(frame))

    async def adopted(self) -> frames.ToZygote:
        data = await asyncio.get_running_loop().sock_recv(self.zygote, 1024)
        (frame,) = frames.Splitter(frames.TO_ZYGOTE).feed(data)
        return frame

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.executors._channel)
        self.executors._channel.close()
        self.zygote.close()


@pytest.fixture
def children() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two processes, each of which lives until its standard input is closed."""
    code = "import sys; sys.stdin.read()"
    made = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for _ in "ab"]
    yield made
    for process in made:
        process.communicate()


def run(body: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(body, 30)

    asyncio.run(bounded())


def test_a_zygote_that_leaves_late_is_followed_and_keeps_nothing_else_from_running(
    children: list["subprocess.Popen[bytes]"],
) -> None:
    async def body() -> None:
        moving = Moving(children)
        loop = asyncio.get_running_loop()
        moving.say(frames.PlaceFrame(moving.new.pid))
        since = longest = loop.time()
        longest = 0.0
        for _ in range(70):  # longer than the half second that was allowed once
            await asyncio.sleep(0.01)
            moving.executors.reap()
            longest, since = max(longest, loop.time() - since), loop.time()
        assert longest < 0.4 * crowded()
        assert (moving.garbled, moving.deaths) == ([], [])
        assert moving.old.stdin is not None
        moving.old.stdin.close()
        assert await moving.adopted() == frames.AdoptedFrame()
        assert moving.executors._pid == moving.new.pid
        assert (moving.garbled, moving.deaths) == ([], [])
        moving.close()

    run(body())


def test_a_zygote_that_never_leaves_costs_a_session_and_not_the_worker(
    children: list["subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "ping_timeout_seconds", 0.05)

    async def body() -> None:
        moving = Moving(children)
        moving.say(frames.PlaceFrame(moving.new.pid))
        with pytest.raises(SessionOver) as over:
            await moving.parts.any_of(asyncio.get_running_loop().create_future())
        assert over.value.code == ANEW
        assert moving.garbled == []
        moving.close()

    run(body())


def test_a_zygote_cannot_go_on_as_what_is_no_child_of_ours(
    children: list["subprocess.Popen[bytes]"],
) -> None:
    async def body() -> None:
        moving = Moving(children)
        moving.say(frames.PlaceFrame(1))
        assert moving.old.stdin is not None
        moving.old.stdin.close()
        while not moving.garbled:
            await asyncio.sleep(0.001)
        assert "not the process that it named" in str(moving.garbled[0])
        moving.close()

    run(body())


def test_a_loss_that_no_frame_could_carry_is_handed_over_all_the_same() -> None:
    async def body() -> None:
        with bare() as executor:
            (hold,) = Ledger().take([claimed(RUNNING)])
            cause = cause_of({"kind": "ExecutorExited", "code": 10**30, "text": "it exited"})
            hold.lost = cause.record()
            executor.executor.give([hold])
            assert isinstance(cause, Unknown)

    run(body())
