"""A client that is killed while it hands in a large flow: nothing of it is there, or all."""

import signal
import subprocess
import sys

import pytest
from client.hand import Hand

from limpet import App, State
from limpet.domain.job import JobFilter
from limpet.domain.transition import Complete

SIZE = 2500  # three chunks, with the parent

# Ends itself, with no chance to tidy up, at the given call of the given verb.
PROGRAM = f"""
import os, signal, sys
from limpet import App

url, verb, moment, count = sys.argv[1:]
app = App(url)

@app.task
def work(n: int) -> int:
    return n

store, calls = app.client.store, []
real = getattr(store, verb)

def dying(*args, **more):
    calls.append(args)
    if len(calls) == int(count) and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    answer = real(*args, **more)
    if len(calls) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

setattr(store, verb, dying)
app.flow(work.call(0), [work.call(n) for n in range({SIZE})])
"""

POINTS = [
    ("stage", "before", 1),
    ("stage", "after", 1),
    ("stage", "after", 2),
    ("stage", "after", 3),
    ("commit", "before", 1),
    ("commit", "after", 1),
    ("promote", "before", 1),
    ("promote", "after", 1),
    ("promote", "after", 2),
]


@pytest.mark.parametrize(("verb", "moment", "count"), POINTS)
def test_killed_at_any_point_a_flow_is_there_wholly_or_not_at_all(
    app: App, url: str, verb: str, moment: str, count: int
) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, verb, moment, str(count)],
        capture_output=True,
        check=False,
    )
    assert told.returncode == -signal.SIGKILL, told.stderr.decode()
    store = app.client.store
    while store.promote().more:
        pass
    there = sum(sum(view.counts.values()) for view in store.queues())
    committed = verb == "promote" or (verb, moment) == ("commit", "after")
    assert there == (SIZE + 1 if committed else 0)
    if not committed:
        return
    (parent,) = store.jobs(JobFilter(state=State.BLOCKED)).jobs
    hand = Hand(app)
    last: list[Complete] = []
    while claimed := hand.exchange(*last, room=1000).claimed:
        last = [Complete(job.lease, "0") for job in claimed]
    assert app.job(parent.id).result("5s") == 0
