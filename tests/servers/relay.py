"""A way to a server that changes what it says."""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Mapping


class Relay:
    """Passes everything on, but for words of the server that are replaced by others as long."""

    def __init__(self, port: int, swaps: Mapping[bytes, bytes] | None = None) -> None:
        self._target = port
        self._swaps = dict(swaps or {})
        assert all(len(one) == len(other) for one, other in self._swaps.items())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would not wake the thread that waits in it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _wrapped(self, client: socket.socket) -> socket.socket:
        return client

    def _serve(self, client: socket.socket) -> None:
        try:
            near = self._wrapped(client)
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._open += [near, far]
        with near, far, contextlib.suppress(OSError):
            while self._passes(near, far):
                pass

    def _passes(self, near: socket.socket, far: socket.socket) -> bool:
        # One thread for both ways: a TLS socket cannot be read and written at the same time.
        for one in select.select([near, far], [], [])[0]:
            data = one.recv(1 << 16)
            while isinstance(one, ssl.SSLSocket) and one.pending():
                data += one.recv(one.pending())
            if not data:
                return False
            if one is far:
                for old, new in self._swaps.items():  # what matters comes in one piece
                    data = data.replace(old, new)
            (near if one is far else far).sendall(data)
        return True
