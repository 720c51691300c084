"""An authority of one's own, and TLS in front of a server that has none."""

import os
import socket
import ssl
import subprocess
from pathlib import Path

from servers.debian import environment, found, sentence
from servers.process import NoServer
from servers.relay import Relay

_DAYS = "2"


class Authority:
    """Makes certificates for `localhost`, with all that Python 3.13 insists on."""

    def __init__(self, folder: Path) -> None:
        self.ca, self.key, self.certificate = (folder / name for name in ("ca.pem", "key", "cert"))
        own = folder / "ca.key"
        asked = folder / "asked"
        names = folder / "names"
        names.write_text("subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\n")
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS, "-subj",
                 "/CN=authority of a test", "-addext", "keyUsage=critical,keyCertSign",
                 "-keyout", own, "-out", self.ca)  # fmt: skip
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
                 "-keyout", self.key, "-out", asked)  # fmt: skip
        _openssl("x509", "-req", "-days", _DAYS, "-in", asked, "-CA", self.ca, "-CAkey", own,
                 "-CAcreateserial", "-extfile", names, "-out", self.certificate)  # fmt: skip


def _openssl(*words: str | Path) -> None:
    program = found("openssl")
    if program is None:
        raise NoServer(sentence(["openssl"], "there is none; `make servers` fetches it"))
    subprocess.run(
        [program, *words],
        env={**os.environ, **environment(program)},
        capture_output=True,
        check=True,
    )


class TlsRelay(Relay):
    """Speaks TLS with clients, and passes what they say on."""

    def __init__(self, port: int, authority: Authority) -> None:
        super().__init__(port)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(authority.certificate, authority.key)

    def _wrapped(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)
