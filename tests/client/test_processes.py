"""One app in many processes: started anew, or forked while it is in use."""

import multiprocessing
import os
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from client.hand import Hand

from limpet import App, State
from limpet.domain.transition import Complete

ENQUEUE = """
import sys
from limpet import App
app = App(sys.argv[1])

@app.task
def work(n: int) -> int: ...

ids = [work.enqueue(n=n).id for n in range(50)]
ids += [job.id for job in app.enqueue_many([work.call(n=n) for n in range(50)])]
print("\\n".join(ids))
"""


def test_many_processes_enqueue_into_one_file_and_nothing_is_lost(app: App, url: str) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", ENQUEUE, url], stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    ids = [line for each in started for line in each.communicate()[0].decode().split()]
    assert [each.returncode for each in started] == [0] * 6
    assert len(set(ids)) == 600
    assert set(app.client.store.states(ids).values()) == {State.READY}
    assert len(app.client.store.states(ids)) == 600


def test_a_program_that_ends_leaves_one_file_and_no_log_behind(url: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE, url], check=True, capture_output=True)
    assert not (tmp_path / "jobs.db-wal").exists()
    assert (tmp_path / "jobs.db").exists()


def test_parent_and_child_go_on_after_a_fork_in_the_middle_of_enqueues(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    stop = threading.Event()
    made: list[str] = []

    def enqueue_until_told() -> None:
        n = 0
        while not stop.is_set():
            made.append(work.enqueue(n=n).id)
            n += 1

    threads = [threading.Thread(target=enqueue_until_told) for _ in range(4)]
    for thread in threads:
        thread.start()

    def in_child(pipe: Connection) -> None:
        pipe.send([work.enqueue(n=-1).id for _ in range(20)])

    context = multiprocessing.get_context("fork")
    childs: list[str] = []
    for _ in range(5):
        read, write = context.Pipe(duplex=False)
        child = context.Process(target=in_child, args=(write,))
        child.start()
        assert read.poll(30)
        childs += read.recv()
        child.join(30)
        assert child.exitcode == 0
    stop.set()
    for thread in threads:
        thread.join()
    ids = made + childs
    assert len(set(ids)) == len(ids)
    found: dict[str, State] = {}
    for start in range(0, len(ids), 1000):
        found |= app.client.store.states(ids[start : start + 1000])
    assert len(found) == len(ids)


def test_a_forked_child_can_wait_for_a_result(app: App) -> None:
    @app.task
    def work() -> int: ...  # type: ignore[empty-body]

    first = work.enqueue()
    hand = Hand(app)
    hand.exchange(Complete(hand.exchange().claimed[0].lease, "1"), room=0)
    assert first.result(timeout="10s") == 1
    second = work.enqueue()
    lease = hand.exchange().claimed[0].lease
    child = os.fork()
    if child == 0:
        try:
            os._exit(second.result(timeout="20s"))
        except BaseException:
            os._exit(99)
    hand.exchange(Complete(lease, "7"), room=0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
