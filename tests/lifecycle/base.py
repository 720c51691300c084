"""The app of the lifecycle tests, and what its tasks have in common.

Its tasks are in `lifecycle.tasks`, `lifecycle.weighted` and `lifecycle.hostile`. Each says through
`lifecycle.recorder` when it ran. One that takes a `word` goes on until a file of that name is in
the test's folder, so that a test decides when it ends, and how.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from lifecycle.recorder import Recorder

from limpet import App, Context, QueueLimit, Retry

RATE = 50

app = App(
    "sqlite://" if "LIMPET_URL" not in os.environ else None,
    queues={"rated": QueueLimit(rate=f"{RATE}/s")},
)
once = Retry(attempts=1)

if os.environ.get("LIMPET_TEST_THREAD"):
    # An app that starts a thread on import cannot be forked.
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()

Daemon = Literal["", "marked", "bare"]


def folder() -> Path:
    return Path(os.environ["LIMPET_TEST_FOLDER"])


def said(word: str) -> Callable[[], bool]:
    """Whether the test has said the word; the empty one is never said."""
    if not word:
        return lambda: False
    path = str(folder() / word)
    return lambda: os.path.exists(path)


@contextmanager
def recording(ctx: Context, role: Literal["job", "thread"] = "job") -> Iterator[Recorder]:
    with closing(Recorder(folder() / "records", ctx.job.id, ctx.token, role)) as recorder:
        yield recorder
