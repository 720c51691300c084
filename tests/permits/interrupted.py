"""A program that is interrupted while it waits for a permit, has it, or leaves it.

`interrupted.py URL MODE TIME …`: once for each, after so long: seconds, or for the mode "leaving"
parts of what it takes to have a permit and to leave it. Says what became of each.
"""

import asyncio
import json
import signal
import sys
import time

from limpet import App
from limpet.storage.registry import open_store

NAME = "victim"


def main(url: str, mode: str, times: list[float]) -> None:
    # An exception of a handler, as that of Ctrl-C; this one comes at a moment that is known.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    app, witness = App(url), open_store(url)
    app.permit()  # so that nothing is imported later
    unit = passage(app) if mode == "leaving" else 1.0
    for delay in (max(0.0001, each * unit) for each in times):
        outcome = "left"
        began = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            with app.permit(name=NAME):
                if mode == "inside":
                    time.sleep(30)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            outcome = "interrupted"
        late = time.monotonic() - began - delay
        alive = [each.id for each in witness.sessions() if each.name == NAME]
        print(json.dumps([outcome, late, alive]), flush=True)


def passage(app: App) -> float:
    """How long it takes when nobody interrupts."""
    with app.permit(name=NAME):
        pass  # connections are made
    began = time.monotonic()
    for _ in range(3):
        with app.permit(name=NAME):
            pass
    return (time.monotonic() - began) / 3


async def without_blocking(app: App) -> None:
    async with app.permit(name=NAME):
        pass


def once(url: str, mode: str) -> None:
    """As a script does that thinks of nothing of the kind."""
    app = App(url)
    app.permit()
    print("asks", flush=True)
    if mode == "async":
        asyncio.run(without_blocking(app))
    with app.permit(name=NAME):
        print("has it", flush=True)
        if mode == "inside":
            time.sleep(30)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        main(sys.argv[1], sys.argv[2], [float(each) for each in sys.argv[3:]])
    else:
        once(sys.argv[1], sys.argv[2])
