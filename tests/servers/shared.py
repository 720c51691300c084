"""The servers that most tests share: one of each kind for each process of tests, while it lives."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from servers.postgres import PostgresServer, remove_copies
from servers.redis import RedisServer

KINDS = ("redis", "valkey", "postgres", "postgres15")

_urls: dict[str, str] = {}


def shared_url(kind: str) -> str:
    """The URL of a server of this kind; it is started when it is first asked for.

    LIMPET_TEST_REDIS_URL, LIMPET_TEST_VALKEY_URL, LIMPET_TEST_POSTGRES_URL and
    LIMPET_TEST_POSTGRES15_URL name one that runs already; what is in it is lost.
    """
    if kind not in _urls:
        given = os.environ.get(f"LIMPET_TEST_{kind.upper()}_URL")
        _urls[kind] = given or _start(kind)
    return _urls[kind]


def _start(kind: str) -> str:
    folder = Path(tempfile.mkdtemp(prefix=f"limpet-{kind}-"))
    folder.chmod(0o755)
    server: PostgresServer | RedisServer
    match kind:
        case "postgres":
            server = PostgresServer(folder)
        case "postgres15":
            server = PostgresServer(folder, version=15)
        case _:
            server = RedisServer(folder, kind=kind)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # a child that a test has forked leaves it alone
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)
            remove_copies()

    atexit.register(end)
    return server.start().url
