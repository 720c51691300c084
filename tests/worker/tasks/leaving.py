"""Tasks that leave threads and processes behind."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from worker.base import app, once
from worker.notes import note

from limpet import Context

_WRITES = """
import os, sys, time
until = time.monotonic() + 30
while time.monotonic() < until:
    with open(sys.argv[1], "a") as file:
        file.write("alive\\n")
    time.sleep(0.01)
"""


def write_on(path: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        note(path, "alive")
        time.sleep(0.01)


@app.task(retry=once)
def leaves_a_thread(path: str) -> int:
    threading.Thread(target=write_on, args=(path,), daemon=True).start()
    time.sleep(0.05)
    return os.getpid()


@app.task(retry=once)
async def leaves_a_thread_async(path: str) -> int:
    threading.Thread(target=write_on, args=(path,), daemon=True).start()
    await asyncio.sleep(0.05)
    return os.getpid()


@app.task(retry=once)
def leaves_a_pool(path: str) -> int:
    ThreadPoolExecutor(1).submit(write_on, path)
    time.sleep(0.05)
    return os.getpid()


@app.task(retry=once)
def leaves_a_thread_and_fails(path: str) -> None:
    threading.Thread(target=write_on, args=(path,), daemon=True).start()
    time.sleep(0.05)
    raise ValueError("and a thread goes on")


@app.task(retry=once)
def leaves_a_brief_thread(path: str) -> int:
    """One that ends by itself soon after: nothing need be replaced."""

    def briefly() -> None:
        time.sleep(0.1)
        note(path, "done")

    threading.Thread(target=briefly).start()
    return os.getpid()


@app.task(retry=once)
def leaves_a_program(path: str) -> int:
    subprocess.Popen([sys.executable, "-c", _WRITES, path])
    until = time.monotonic() + 10
    while not Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return os.getpid()


@app.task(retry=once)
def leaves_a_daemon(path: str) -> int:
    """A program that leaves its parent, its session and its group."""
    code = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n" + _WRITES
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    until = time.monotonic() + 10
    while not Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return os.getpid()


@app.task(retry=once)
async def leaves_a_program_async(path: str) -> int:
    await asyncio.create_subprocess_exec(sys.executable, "-c", _WRITES, path)
    while not await asyncio.to_thread(os.path.exists, path):
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task(retry=once)
def runs_a_program(ctx: Context, path: str) -> int:
    """Waits for a program that waits for the test."""
    code = (
        "import os, sys, time\n"
        "until = time.monotonic() + 20\n"
        "while not os.path.exists(sys.argv[1]) and time.monotonic() < until: time.sleep(0.01)\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code, path])
    ctx.progress(1)
    status = program.wait()
    if status != 0:
        raise RuntimeError(f"the program ended with {status}")
    return status


def square(number: int) -> int:
    return number * number


@app.task(retry=once)
def uses_a_process_pool(method: str, numbers: list[int]) -> list[int]:
    import multiprocessing

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        return list(pool.map(square, numbers))


@app.task(retry=once)
def pid() -> int:
    return os.getpid()


@app.task(retry=once)
async def pid_async() -> int:
    return os.getpid()
