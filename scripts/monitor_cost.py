"""The cost of the monitor of a host, which once a second measures 20 executors with as many permits
and publishes the reading in a store.

Run by hand, with `tests` on the Python path: `python scripts/monitor_cost.py sqlite 60`; it runs on
`sqlite`, `redis`, `valkey` and `postgres`, and prints the result as JSON. The cost is the processor
time of the monitor and, where there is one, of the server.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from servers import PostgresServer, RedisServer

from limpet.domain.clock import SystemClock
from limpet.domain.permit import Room
from limpet.domain.reading import ExecutorUse
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.weight import Weight
from limpet.gate.assess import LIFETIME_MICROSECONDS, USUAL_THRESHOLDS
from limpet.gate.measure.history import History
from limpet.gate.measure.holders import Holders
from limpet.gate.measure.monitor import Monitor
from limpet.gate.measure.trees import SessionTrees
from limpet.gate.published import Published, written
from limpet.host.boot import boot_id
from limpet.host.marks import MARK
from limpet.storage.registry import open_store

EXECUTORS = 20
MOST_PERCENT = 1.0
SERVER, SESSION = "bench", "session-of-the-executors"
# A parent of executors, where each executor has a child, as if it ran a command.
ZYGOTE = f"""
import subprocess, sys
from limpet.host import marks, processes
processes.set_name(marks.ZYGOTE)
each = "import subprocess, sys; subprocess.run(['sleep', '600'])"
them = [subprocess.Popen([sys.executable, '-c', each]) for _ in range({EXECUTORS})]
print('ready', flush=True)
try:
    sys.stdin.read()
finally:
    for child in them:
        child.kill()
"""


def measured(kind: str, seconds: int) -> dict[str, object]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        url, server = _store(kind, folder, stack)
        store = stack.enter_context(closing(open_store(url)))
        store.migrate()
        zygote = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, MARK: SESSION},
        )
        stack.callback(lambda: os.killpg(zygote.pid, 9))
        assert zygote.stdout is not None
        zygote.stdout.readline()
        time.sleep(1)
        room = Room(SERVER, 1000 * EXECUTORS, 0)
        for number in range(EXECUTORS):
            caller = f"caller-{number}"
            store.register(NewSession(caller, SessionKind.PERMIT, caller, "here", 1))
            assert store.take_permit(caller, Weight(cpu=1), room)
        monitor, trees = Monitor(SERVER, SystemClock()), SessionTrees()
        holders, history = Holders(), History()
        lifetime = timedelta(microseconds=LIFETIME_MICROSECONDS)
        before, at_server = time.process_time(), _seconds_of(server)
        began = time.monotonic()
        for second in range(seconds):
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
            reading = monitor.poll()
            seen = trees.sample(reading.at_boot)
            executors = tuple(
                ExecutorUse(each.session, each.pid, each.cpu_percent, each.memory_bytes)
                for each in seen.trees
            )
            reading = holders.apart(
                replace(reading, executor_use=executors), seen, store.permits(SERVER)
            )
            published = Published(
                reading, monitor.bounds().capacity, USUAL_THRESHOLDS, boot_id(), "w", "session"
            )
            store.publish_host(SERVER, written(published), lifetime, history.add(reading))
        took = time.monotonic() - began
        own, theirs = time.process_time() - before, _seconds_of(server) - at_server
        count = sum(each.session == SESSION for each in reading.executor_use)
    percent = 100 * (own + theirs) / took
    summary = (
        f"{percent:.2f} % of a core over {took:.0f} s with {count} executors "
        f"({1000 * own / seconds:.2f} ms of the monitor and {1000 * theirs / seconds:.2f} ms of "
        f"the server a second)"
    )
    return {"percent": percent, "executors": count, "summary": summary, "troubles": []}


def _store(kind: str, folder: Path, stack: ExitStack) -> tuple[str, int | None]:
    if kind == "sqlite":
        return f"sqlite:///{folder}/jobs.db", None
    server: PostgresServer | RedisServer
    server = PostgresServer(folder) if kind == "postgres" else RedisServer(folder, kind=kind)
    url = server.start().url
    stack.callback(server.kill)
    return url, server.pid


def _seconds_of(root: int | None) -> float:
    """The processor time of a server and of all its children, also those that have ended."""
    if root is None:
        return 0.0
    ticks = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(folder.name) == root or int(fields[1]) == root:
                ticks += sum(int(each) for each in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    kind, seconds = sys.argv[1], int(sys.argv[2])
    found = measured(kind, seconds)
    print(json.dumps(found))
    within = float(str(found["percent"])) < MOST_PERCENT and found["executors"] == EXECUTORS
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
