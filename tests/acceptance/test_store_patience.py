"""An enqueue while the store's server is gone: said again for as long as was asked for."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from servers import RedisServer

from limpet import App
from limpet.domain.errors import InvalidOption, StoreUnreachable


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    # With `everysec` a server that is killed while it syncs forgets what it has answered since.
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always").start()
    yield server
    server.kill()


def app_on(server: RedisServer, patience: str | None) -> App:
    app = App(server.url, store_patience=patience)

    @app.task(name="send")
    def send(to: str) -> None: ...

    return app


def test_without_patience_the_caller_is_told_at_once(server: RedisServer) -> None:
    app = app_on(server, None)
    server.kill()
    began = time.monotonic()
    with pytest.raises(StoreUnreachable):
        app.find("send").enqueue(to="a@b.c")
    assert time.monotonic() - began < 3
    app.close()


def test_with_patience_the_job_is_there_once_the_server_is_back(server: RedisServer) -> None:
    app = app_on(server, "60s")
    send = app.find("send")
    first = send.enqueue(to="a@b.c")
    server.kill()
    with ThreadPoolExecutor(3) as callers:
        waiting = [
            callers.submit(lambda: [send.enqueue(to="b@b.c")]),
            callers.submit(lambda: [asyncio.run(send.aenqueue(to="c@b.c"))]),
            callers.submit(lambda: app.enqueue_many([send.call(to=each) for each in "de"])),
        ]
        time.sleep(0.3)
        assert not any(each.done() for each in waiting)
        server.start()
        jobs = [job for each in waiting for job in each.result(60)]
    assert {each.refresh().state for each in (first, *jobs)} == {"ready"}
    (queue,) = app.client.store.queues()
    assert queue.counts == {"ready": 5}
    app.close()


def test_patience_has_an_end(server: RedisServer) -> None:
    app = app_on(server, "300ms")
    server.kill()
    began = time.monotonic()
    with pytest.raises(StoreUnreachable):
        app.find("send").enqueue(to="a@b.c")
    assert 0.1 < time.monotonic() - began < 5
    app.close()


def test_patience_is_a_setting_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_STORE_PATIENCE", "soon")
    with pytest.raises(InvalidOption, match="LIMPET_STORE_PATIENCE is 'soon'"):
        App("sqlite://")
