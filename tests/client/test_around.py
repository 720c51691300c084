"""What an app runs around attempts: refused when it is registered, if it could not work."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from limpet import App, Context, InvalidOption
from limpet.storage.registry import open_store


def test_hooks_are_kept_in_their_order_and_stay_functions(app: App) -> None:
    @app.on_start
    def connect(size: int = 3) -> int:
        return size

    @app.on_start
    async def warm() -> None: ...

    @app.on_stop
    async def close() -> None: ...

    assert connect() == 3
    assert app.registry.start_hooks == (connect, warm)
    assert app.registry.stop_hooks == (close,)


def test_a_hook_that_could_not_be_called_is_refused(app: App) -> None:
    def wants(pool: int) -> None: ...

    def generator() -> Iterator[None]:
        yield

    with pytest.raises(InvalidOption, match="@app.on_start: .*wants wants 'pool'"):
        app.on_start(wants)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match="@app.on_stop is for plain or async functions"):
        app.on_stop(generator)
    with pytest.raises(InvalidOption, match="@app.on_start is for"):
        app.on_start("connect")  # type: ignore[type-var]
    assert app.registry.start_hooks == app.registry.stop_hooks == ()


def test_middlewares_are_kept_in_their_order(app: App) -> None:
    @app.middleware
    def timed(ctx: Context) -> Iterator[None]:
        def unrelated() -> Iterator[int]:
            yield 1
            yield 2

        try:
            yield
        finally:
            list(unrelated())

    @app.middleware
    async def traced(ctx: Context) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack():
            yield

    assert app.registry.middlewares == (timed, traced)


def test_a_middleware_that_could_not_work_is_refused(app: App) -> None:
    def plain(ctx: Context) -> None: ...
    async def coroutine(ctx: Context) -> None: ...

    @contextlib.contextmanager
    def manager(ctx: Context) -> Iterator[None]:
        yield

    def no_context() -> Iterator[None]:
        yield

    def by_keyword(*, ctx: Context) -> Iterator[None]:
        yield

    def two(ctx: Context, more: int) -> Iterator[None]:
        yield

    def twice(ctx: Context) -> Iterator[None]:
        yield
        yield

    def passed_on(ctx: Context) -> Iterator[None]:
        yield from [None]

    async def twice_async(ctx: Context) -> AsyncIterator[None]:
        if ctx.cancelled:
            yield
        else:
            yield

    refused: list[tuple[Any, str]] = [
        (plain, "is not a generator function"),
        (coroutine, "is not a generator function"),
        (manager, "without @contextmanager"),
        (None, "is not a generator function"),
        (no_context, "must have one parameter, the context"),
        (by_keyword, "must have one parameter"),
        (two, "must have one parameter"),
        (twice, "has 2 yields and must have one"),
        (passed_on, "must have one, at which"),
        (twice_async, "has 2 yields"),
    ]
    for function, words in refused:
        with pytest.raises(InvalidOption, match=words):
            app.middleware(function)
    assert app.registry.middlewares == ()


def test_a_middleware_without_source_is_taken_at_its_word(app: App) -> None:
    space: dict[str, Any] = {}
    exec("def made(ctx):\n    yield", space)
    app.middleware(space["made"])
    assert app.registry.middlewares == (space["made"],)


def test_an_app_uses_the_store_that_it_is_given_from_then_on(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    first = work.enqueue().id
    assert app.client.store is not None
    other = open_store(url)
    app.registry.store_through(other)
    assert app.client.store is other
    assert app.job(first).task == "work"
    assert app.job(work.enqueue().id).task == "work"


def test_a_url_that_cannot_be_right_leaves_the_app_as_it_was(app: App, url: str) -> None:
    with pytest.raises(InvalidOption):
        app.registry.move_to("nonsense://x")
    assert app.url == url
    assert app.client.store.queues() == ()
