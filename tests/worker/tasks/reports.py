"""Tasks that say something while they run."""

import asyncio
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, SecretStr
from worker.base import app

from limpet import Context, Secret

logger = logging.getLogger("shop.mail")


def hold(path: str) -> None:
    """Until the test has seen enough."""
    until = time.monotonic() + 15
    while not Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)


@app.task
def tells(ctx: Context, path: str) -> None:
    ctx.progress(3, 10, "the third")
    ctx.log.info("from the context %d", 1)
    ctx.log.debug("even this")
    logger.warning("from plain logging")
    hold(path)


@app.task
async def tells_async(ctx: Context, path: str) -> None:
    ctx.progress(3, 10, "the third")
    ctx.log.info("from the context %d", 1)
    ctx.log.debug("even this")
    logger.warning("from plain logging")
    await asyncio.to_thread(hold, path)


@app.task
def is_brief(ctx: Context, lines: int) -> None:
    for line in range(lines):
        ctx.log.info("line %d", line)
    ctx.progress(1, 1, "done")


@app.task
async def is_brief_async(ctx: Context, lines: int) -> None:
    for line in range(lines):
        ctx.log.info("line %d", line)
    ctx.progress(1, 1, "done")


@app.task
def fails_with_words(ctx: Context) -> None:
    ctx.log.error("the last words")
    os._exit(7)


@app.task
def tells_from_threads(ctx: Context) -> None:
    def say(where: str) -> None:
        ctx.log.info("context in %s", where)
        logger.info("logging in %s", where)

    thread = threading.Thread(target=say, args=("a thread",))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(say, "a pool").result()


@app.task
async def tells_from_threads_async(ctx: Context) -> None:
    def say(where: str) -> None:
        ctx.log.info("context in %s", where)
        logger.info("logging in %s", where)

    await asyncio.to_thread(say, "to_thread")
    thread = threading.Thread(target=say, args=("a thread",))
    thread.start()
    await asyncio.to_thread(thread.join)
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, say, "a pool")


@app.task
def floods_the_log(ctx: Context, lines: int) -> int:
    for line in range(lines):
        ctx.log.info("line %d %s", line, "x" * 200)
    return lines


@app.task
async def floods_progress(ctx: Context, times: int) -> int:
    for step in range(times):
        ctx.progress(step, times, "step")
    return times


@app.task
def says_much(ctx: Context) -> None:
    ctx.log.info("a" * 1_000_000)
    ctx.progress(1, 2, "n" * 100_000)


@app.task
def says_nonsense(ctx: Context) -> str:
    ctx.log.info("%d of %d", "one")  # noqa: PLE1206 - that is the point
    logger.info("%d", "x")
    ctx.log.info("\ud800 \x00 end")
    return "well"


@app.task
def reconfigures_logging(ctx: Context) -> None:
    """As many programs do when they set themselves up."""
    logging.basicConfig(force=True, level=logging.ERROR)
    logger.error("after the new configuration")


@app.task
def logs_plainly() -> None:
    logger.error("plainly")


class Login(BaseModel):
    user: str
    password: SecretStr


@app.task
def keeps_secrets(login: Login, token: Annotated[str, Secret]) -> Annotated[str, Secret]:
    return login.password.get_secret_value() + token
