"""A TCP proxy between a store and its users that can fail in every way that a network does."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_HOST = "127.0.0.1"
_BYTES = _MOST_REMEMBERED = 1 << 16


class Proxy:
    """Listens on a port of its own, in a thread of its own, and passes everything on."""

    def __init__(self, target: int) -> None:
        """`target`: the port of the server."""
        self._target = target
        self._hangs = False
        self._delay = 0.0
        self._lose: bytes | None = None
        self._silence: bytes | None = None
        self._ever = False
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        # When somebody connected, or tried to (monotonic).
        self.attempts: list[float] = []
        self.lost = threading.Event()
        self.silenced = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._listen())

    def url(self, of_server: str, target: int) -> str:
        """The URL of a server as it is reached through here."""
        return of_server.replace(f":{target}", f":{self.port}", 1)

    # -- what may happen to a network

    def cut(self) -> None:
        """Reset every connection; new ones are passed on."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Reset every connection, and let nobody connect: as a server that is not there.

        Who tries all the same is counted.
        """
        self._do(self._refuse())

    def hang(self) -> None:
        """Take what is sent, and pass nothing on: those who are connected now hear nothing ever
        again, and neither do those who come while it hangs.
        """
        self._do(self._hang())

    def delay(self, seconds: float) -> None:
        """Pass everything on so much later."""
        self._delay = seconds

    def lose_reply_to(self, word: bytes) -> None:
        """Pass the next request on that has this word, and cut its connection when the server
        answers, so that the answer is lost; `lost` is set then.
        """
        self.lost.clear()
        self._lose = word

    def silence(self, word: bytes, *, ever: bool = False) -> None:
        """Swallow the next request that has this word, and all that is said on its connection from
        then on, as where packets are lost; `silenced` is set then. Other connections are good.

        `ever`: the next one on a connection that has ever said the word, because what is prepared
        is said once, and then called by a name.
        """
        self.silenced.clear()
        self._silence, self._ever = word, ever

    def pass_on(self, target: int | None = None) -> None:
        """Be a good network again; to another server, if one is named."""
        self._do(self._pass_on(target))

    def attempts_since(self, moment: float) -> int:
        """How many connections were tried after a moment (monotonic)."""
        return sum(each > moment for each in self.attempts)

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # -- in its thread

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, _HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        for pair in list(self._pairs):
            pair.reset()

    async def _refuse(self) -> None:
        # A closed port could not be counted; a connection that is reset at once is as good.
        self._refuses = True
        await self._cut()

    async def _hang(self) -> None:
        self._hangs = True
        for pair in self._pairs:
            pair.silent = True

    async def _pass_on(self, target: int | None) -> None:
        self._refuses = self._hangs = False
        self._delay = 0.0
        if target is not None:
            self._target = target

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()
        for pair in list(self._pairs):
            await pair.over()

    _refuses = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts.append(time.monotonic())
        if self._refuses:
            writer.transport.abort()
            return
        pair = _Pair(self, reader, writer, silent=self._hangs)
        self._pairs.add(pair)
        try:
            await pair.run(self._target)
        finally:
            self._pairs.discard(pair)

    # -- what the connections ask

    async def wait(self) -> None:
        if self._delay:
            await asyncio.sleep(self._delay)

    def is_to_be_silenced(self, request: bytes, said: bytearray) -> bool:
        if self._silence is None or self._silence not in (said if self._ever else request):
            return False
        self._silence = None
        self.silenced.set()
        return True

    def is_to_be_lost(self, request: bytes) -> bool:
        if self._lose is None or self._lose not in request:
            return False
        self._lose = None
        return True


class _Pair:
    """One connection, from its user to the server and back."""

    def __init__(
        self,
        proxy: Proxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        silent: bool,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._out: asyncio.StreamWriter | None = None
        self._loses_reply = False
        self._said = bytearray()
        self._ended = asyncio.Event()
        self.silent = silent

    async def run(self, target: int) -> None:
        try:
            if self.silent:
                await self._swallow()
                return
            reader, self._out = await asyncio.open_connection(_HOST, target)
            ways = [
                asyncio.ensure_future(self._forth(self._out)),
                asyncio.ensure_future(self._back(reader)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # the server is not there: whoever came sees a reset
        finally:
            self.reset()
            self._ended.set()

    async def _swallow(self) -> None:
        with contextlib.suppress(OSError):
            while await self._reader.read(_BYTES):
                pass

    async def _forth(self, out: asyncio.StreamWriter) -> None:
        while data := await self._reader.read(_BYTES):
            await self._proxy.wait()
            self._said += data[: _MOST_REMEMBERED - len(self._said)]
            self.silent = self.silent or self._proxy.is_to_be_silenced(data, self._said)
            if self.silent:
                continue
            self._loses_reply = self._loses_reply or self._proxy.is_to_be_lost(data)
            out.write(data)
            await out.drain()

    async def _back(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_BYTES):
            await self._proxy.wait()
            if self.silent:
                continue
            if self._loses_reply:
                self._proxy.lost.set()
                return
            self._writer.write(data)
            await self._writer.drain()
        if self.silent:
            await self._swallow()

    def reset(self) -> None:
        for writer in (self._writer, self._out):
            if writer is not None:
                writer.transport.abort()

    async def over(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 2)
