"""The servers that tests are run on: real ones, which do not outlive the tests."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import PostgresServer, RedisServer, shared_url

KINDS = ["redis", "valkey", "postgres"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that the server's user may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="limpet-servers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_started_once_for_all_who_ask(kind: str) -> None:
    assert shared_url(kind) == shared_url(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_dies_with_the_tests_whatever_ends_them(kind: str, open_folder: Path) -> None:
    tests = Path(__file__).parents[2]
    asks = f"""
        import sys, time
        sys.path.insert(0, {str(tests)!r})
        from servers import PostgresServer, RedisServer
        from pathlib import Path
        folder = Path(sys.argv[1]) / "server"
        server = PostgresServer(folder) if {kind!r} == "postgres" else RedisServer(folder, kind={kind!r})
        print(server.start().pid, flush=True)
        time.sleep(60)
    """  # noqa: E501
    runner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(asks), str(open_folder)], stdout=subprocess.PIPE
    )
    assert runner.stdout is not None
    with runner.stdout:
        pid = int(runner.stdout.readline())
    runner.kill()
    runner.wait()
    until = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < until, "the server outlives the tests"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (OSError, ProcessLookupError):
        return False


def test_a_server_keeps_its_data_over_a_kill_if_it_is_told_to(open_folder: Path) -> None:
    server = RedisServer(open_folder / "redis", "--appendonly", "yes", "--appendfsync", "always")
    server.start()
    try:
        _say(server, "SET", "a", "1")
        server.kill()
        server.start()
        assert _say(server, "GET", "a") == b"1"
        server.signal(signal.SIGSTOP)
        server.signal(signal.SIGCONT)
    finally:
        server.stop()


def _say(server: RedisServer, *words: str) -> object:
    import redis

    client = redis.Redis.from_url(server.url)
    try:
        return client.execute_command(*words)  # type: ignore[no-untyped-call]
    finally:
        client.close()


def test_postgres_takes_settings_and_starts_again(open_folder: Path) -> None:
    import psycopg

    server = PostgresServer(open_folder / "postgres", work_mem="3MB").start()
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (a int)")
            assert connection.execute("SHOW work_mem").fetchone() == ("3MB",)
        server.stop()
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        server.stop()
