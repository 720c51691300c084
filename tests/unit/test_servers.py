"""The servers that tests are run on: real ones, which do not outlive the tests."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from servers import PostgresServer, RedisServer, shared_url

KINDS = ["redis", "valkey", "postgres"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_started_once_for_all_who_ask(kind: str) -> None:
    assert shared_url(kind) == shared_url(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_dies_with_the_tests_whatever_ends_them(kind: str, tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
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
    tmp_path.chmod(0o755)
    for above in list(tmp_path.parents)[:2]:
        above.chmod(0o755)  # pytest's own folders are closed to the server's user
    runner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(asks), str(tmp_path)], stdout=subprocess.PIPE
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


def test_a_server_keeps_its_data_over_a_kill_if_it_is_told_to(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always")
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


def test_postgres_takes_settings_and_starts_again(tmp_path: Path) -> None:
    import psycopg

    tmp_path.chmod(0o755)
    for above in list(tmp_path.parents)[:2]:
        above.chmod(0o755)
    server = PostgresServer(tmp_path / "postgres", work_mem="3MB").start()
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
