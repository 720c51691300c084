"""What users do that nobody expects."""

import asyncio
import contextlib
import gc
import logging
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import time
from typing import Any

from worker import forgeries
from worker.base import app, once, soon
from worker.notes import note, notes
from worker.tasks.results import add

from limpet import Context, LimpetError
from limpet.domain.lease import Lease
from limpet.worker.executor.executor import Surroundings


@app.task
def hoards(path: str) -> int:
    note(path, "run")
    held: list[bytes] = []
    if len(notes(path, "run")) == 1:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            if len(held) < 60:
                held.append(b"x" * 8_000_000)
            time.sleep(0.02)
    return len(notes(path, "run"))


@app.task(retry=once)
def prints(count: int) -> int:
    for n in range(count):
        print("a line that nobody asked for", n, "x" * 80)
    return count


@app.task(retry=once)
async def prints_async(count: int) -> int:
    for n in range(count):
        print("a line that nobody asked for", n, "x" * 80)
    return count


@app.task(retry=soon)
def closes_all_files(path: str) -> str:
    note(path, "run")
    os.closerange(3, 1024)
    return "closed"


@app.task(retry=soon)
async def closes_all_files_async(path: str) -> str:
    note(path, "run")
    os.closerange(3, 1024)
    return "closed"


@app.task(retry=once)
def closes_the_standard_files() -> str:
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    return "closed"


@app.task(retry=once)
def closes_standard_output() -> str:
    sys.stdout.close()
    sys.stderr.close()
    return "closed"


@app.task(retry=once)
def takes_all_signals() -> str:
    for number in range(1, 65):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    return "taken"


@app.task(retry=once)
def waits_to_be_stopped(path: str, seconds: float = 30) -> None:
    note(path, "begin")
    try:
        time.sleep(seconds)
    finally:
        note(path, "clean")


@app.task(retry=once)
def leaves_an_alarm(seconds: float) -> int:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return os.getpid()


@app.task(retry=soon)
def sleeps_a_bit(path: str, seconds: float) -> int:
    note(path, "run")
    time.sleep(seconds)
    return len(notes(path, "run"))


class Alarm(Exception): ...


@app.task(retry=once)
def is_alarmed_while_it_asks(times: int) -> list[str]:
    """A time limit of the usual kind, around calls that talk to the store."""

    def ring(number: int, frame: object) -> None:
        raise Alarm

    wrong = []
    chance = random.Random(1)
    signal.signal(signal.SIGALRM, ring)
    for n in range(times):
        with contextlib.suppress(Alarm):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.0012 * chance.random())
                job = add.enqueue(n, 1)
                details = app.job(job.id).details
            except (LookupError, RuntimeError, TypeError, AttributeError, LimpetError) as error:
                signal.setitimer(signal.ITIMER_REAL, 0)
                wrong.append(f"{n}: {type(error).__name__}: {error}")
            else:
                signal.setitimer(signal.ITIMER_REAL, 0)
                if details.id != job.id:
                    wrong.append(f"{n}: asked for {job.id} and got {details.id}")
    return wrong[:5]


@app.task(retry=once)
def forks(path: str, how: str) -> str:
    """Forks, and the child does not know that it must not come back."""
    child = os.fork()
    if child == 0:
        note(path, "child")
        if how == "returns":
            return "the child's result"
        if how == "raises":
            raise ValueError("the child's error")
        if how == "exits":
            sys.exit(0)
        if how == "logs":
            logging.getLogger("child").error("from the child")
            os._exit(0)
        if how == "enqueues":
            try:
                add.enqueue(1, 1)
            except Exception as error:
                note(path, "refused", text=str(error))
            os._exit(0)
    os.waitpid(child, 0)
    note(path, "parent")
    return "the parent's result"


@app.task(retry=once)
async def forks_async(path: str, how: str) -> str:
    child = os.fork()
    if child == 0:
        note(path, "child")
        if how == "returns":
            return "the child's result"
        if how == "raises":
            raise ValueError("the child's error")
        if how == "exits":
            sys.exit(0)
    for _ in range(1000):
        if os.waitpid(child, os.WNOHANG)[0]:  # noqa: ASYNC222 - does not wait
            break
        await asyncio.sleep(0.005)
    note(path, "parent")
    return "the parent's result"


def _log_much(lines: int) -> None:
    for n in range(lines):
        logging.getLogger("child").error("%d %s", n, "y" * 3000)


@app.task(retry=once)
def logs_from_processes(ctx: Context, processes: int, lines: int) -> str:
    """Children of a fork inherit the logging of their parent, and with it the way to the job."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_log_much, args=(lines,)) for _ in range(processes)]
    for child in children:
        child.start()
    for n in range(lines):
        ctx.log.info("%d %s", n, "z" * 3000)
    for child in children:
        child.join()
    return "all"


@app.task(retry=once)
def changes_folder(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    os.chdir(path)
    return os.getcwd()


@app.task(retry=once)
def waits_elsewhere() -> int:
    from worker.tasks.results import add_async

    return add_async.enqueue(2, 2).result(timeout=8)


@app.task(retry=once)
def spoils_the_environment() -> str:
    os.environ.clear()
    sys.path.clear()
    return "spoiled"


@app.task(retry=once)
def asks_a_person() -> str:
    try:
        return input("your name? ")
    except EOFError:
        return "nobody there"


@app.task(name="ein:Name-mit.allem_0", retry=once)
def oddly_named() -> str:
    return "odd"


@app.task(retry=once)
def takes_anything(**rest: Any) -> int:
    return len(rest)


@app.task(retry=once)
def traces() -> str:
    def tracer(frame: Any, event: str, argument: Any) -> Any:
        return tracer

    sys.settrace(tracer)
    sys.setrecursionlimit(150)
    return "traced"


@app.task(retry=once)
def starts_something_long() -> int:
    return subprocess.run(["sleep", "0.05"], check=True).returncode


def _way_to_the_supervisor(which: str) -> int:
    """The descriptor of the executor's own socket or pipe, as a stray write might hit it."""
    (given,) = (each for each in gc.get_objects() if isinstance(each, Surroundings))
    way = getattr(given, which)
    return way if isinstance(way, int) else int(way.fileno())


@app.task(retry=soon)
def garbles(path: str, which: str, garbage: str) -> str:
    """Writes into what is not its own, the first time, and goes on."""
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        os.write(_way_to_the_supervisor(which), bytes.fromhex(garbage))
        time.sleep(30)
    return "second"


@app.task(retry=soon)
async def garbles_async(path: str, which: str, garbage: str, beside: int | None = None) -> str:
    """The same in the loop; with a number, once no more jobs than that run beside it."""
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        while beside is not None and len(_attempts_here()) > beside + 1:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)  # in which the loop sends what they returned
        os.write(_way_to_the_supervisor(which), bytes.fromhex(garbage))
        note(path, "garbled")
        await asyncio.sleep(30)
    return "second"


def _attempts_here() -> list[str]:
    """The tasks that run in this loop, under the names that the executor has given them."""
    names = (task.get_name() for task in asyncio.all_tasks())
    return [name for name in names if name in app.tasks]


@app.task(retry=soon)
def forges(ctx: Context, path: str, which: str, forgery: str, times: int = 1) -> str:
    """Writes a forged frame on a way of its own executor's, so many times, and waits for it."""
    note(path, "begin")
    if len(notes(path, "begin")) <= times:
        (given,) = (each for each in gc.get_objects() if isinstance(each, Surroundings))
        own = Lease(ctx.job.id, given.session, ctx.token)
        table = forgeries.WORK if which == "work" else forgeries.NOTES
        os.write(_way_to_the_supervisor(which), forgeries.frame(table[forgery](own)))
        time.sleep(30)
    return "second"


@app.task(retry=once)
def reads_what_is_meant_for_its_lane(path: str, which: str) -> None:
    """As long as jobs wait behind it."""
    (given,) = (each for each in gc.get_objects() if isinstance(each, Surroundings))
    descriptor = given.start_tokens if which == "start_tokens" else given.work.fileno()
    was_blocking = os.get_blocking(descriptor)
    os.set_blocking(descriptor, False)
    note(path, "begin")
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 1 << 20)
        time.sleep(0.005)
    os.set_blocking(descriptor, was_blocking)


@app.task(retry=soon)
def garbles_as_another_user(path: str, garbage: str) -> str:
    """The same to the socket for requests, when it has dropped root's rights."""
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        os.write(_way_to_the_supervisor("requests"), bytes.fromhex(garbage))
        time.sleep(30)
    return "second"


@app.task(retry=once)
def floods(ctx: Context, path: str, seconds: float) -> int:
    """Writes reports of itself as fast as its socket takes them, past its executor's own code."""
    (given,) = (each for each in gc.get_objects() if isinstance(each, Surroundings))
    own = Lease(ctx.job.id, given.session, ctx.token)
    line = [1_790_000_000_000_000, "info", "x" * 200]
    flood = forgeries.frame([forgeries.REPORT, own, [1.0, None, ""], [line]]) * 200
    note(path, "begin")
    written, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        given.work.sendall(flood)
        written += 200
    return written


@app.task(retry=soon)
def floods_requests(path: str, request: str, times: int) -> str:
    """Sends a request again and again and reads no answer; notes how many were taken from it."""
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        way, frame, sent = _way_to_the_supervisor("requests"), bytes.fromhex(request), 0
        os.set_blocking(way, False)
        while sent < times * len(frame) and select.select([], [way], [], 2.0)[1]:
            sent += os.write(way, frame[sent % len(frame) :])
        note(path, "flooded", text=str(sent // len(frame)))
        while not os.path.exists(f"{path}-over"):
            time.sleep(0.01)
        os._exit(3)
    return "second"
