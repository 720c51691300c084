"""Serves the requests of tasks: what they enqueue and ask goes through the supervisor."""

import asyncio
import io
import pickle
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from limpet.domain.errors import LimpetError, StoreUnavailable
from limpet.worker.frames import HEADER_BYTES, header, size_after
from limpet.worker.remote import VERBS

_MODULES = ("limpet.domain.", "limpet.storage.")
_PLAIN = {"builtins": {"frozenset", "set", "bytearray"}, "datetime": {"timedelta", "datetime"}}


class _Reader(pickle.Unpickler):
    """Reads requests only: the classes of the domain, and nothing that could be run."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_MODULES):
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"a request may not carry {module}.{name}")


class Desk:
    """Answers executors, each in turn, many at once."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self._serving: set[asyncio.Task[None]] = set()

    def open(self, sock: socket.socket, garbled: Callable[[Exception], None]) -> None:
        """Begin to serve one executor; `garbled` hears of what is no request."""
        task = asyncio.get_running_loop().create_task(self._serve(sock, garbled))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, sock: socket.socket, garbled: Callable[[Exception], None]) -> None:
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            while True:
                size = size_after(await reader.readexactly(HEADER_BYTES))
                answer = await self._answer(await reader.readexactly(size))
                writer.write(header(len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except msgspec.DecodeError as error:
            garbled(error)
        finally:
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        try:
            verb, args, kwargs = _Reader(io.BytesIO(request)).load()
            if verb not in VERBS:
                raise StoreUnavailable(f"a task cannot use {verb!r}.")
            return pickle.dumps((False, await self._call(verb, *args, **kwargs)))
        except LimpetError as error:
            return pickle.dumps((True, error))
        except Exception as error:
            said = StoreUnavailable(f"{type(error).__name__}: {error}")
            return pickle.dumps((True, said))
