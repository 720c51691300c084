"""`limpet top` as a person sees it: once, as JSON, and live in a terminal."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest

from limpet import App, Secret
from limpet.domain.cause import Raised
from limpet.domain.job import Progress, Report
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Fail
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want

COMMAND = [sys.executable, "-m", "limpet.cli.main", "top", "--url", "sqlite:///jobs.db"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")},
    "TERM": "xterm",
    "COLUMNS": "120",
    "PYTHONUTF8": "1",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[App]:
    """A store with one of everything: running, failed, cancelled while it runs, blocked."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def send(to: str, password: Annotated[str, Secret]) -> None: ...

    @app.task(queue="other")
    def unknown() -> None: ...

    jobs = [send.enqueue(to=f"person-{n}", password="hunter2") for n in range(3)]
    unknown.enqueue()
    store = app.client.store
    session = app.client.ids.new()
    new = NewSession(session, SessionKind.WORKER, "ann", "here", 42, tasks=frozenset({"send"}))
    known = store.register(new)
    want = Want((Pool(known.tasks, {ANY_QUEUE: 9}, 9),))
    claimed = store.exchange(session, 1, (), want).claimed
    leases = {each.lease.job: each.lease for each in claimed}
    store.exchange(session, 2, [Fail(leases[jobs[0].id], Raised("ValueError", "no luck"))])
    progress = Progress(3, 4, "letter 3 of 4", time.time_ns() // 1000)
    store.report(session, [Report(leases[jobs[1].id], progress)])
    store.cancel(jobs[2].id)
    store.pause("other")
    yield app
    app.close()


def top(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("words", [(), ("--once",)])
def test_one_picture_is_printed_where_the_output_is_no_terminal(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    given = top(tmp_path, *words)
    assert (given.returncode, given.stderr) == (0, "")
    for part in (
        "survives a crash and a power cut", "ann", "live", "letter 3 of 4", "75%",
        "cancel requested", "paused", "failed", "ValueError: no luck",
    ):  # fmt: skip
        assert part in given.stdout
    assert "\033" not in given.stdout


@pytest.mark.usefixtures("store")
def test_json_has_everything_that_the_picture_has(tmp_path: Path) -> None:
    told = json.loads(top(tmp_path, "--json").stdout)
    assert told["store"]["durability"].startswith("survives a crash")
    (worker,) = told["workers"]
    assert (worker["name"], worker["state"], worker["holds"]) == ("ann", "live", 2)
    queues = {queue["queue"]: queue for queue in told["queues"]}
    counts = [queues["default"][name] for name in ("running", "failed", "finished", "orphaned")]
    assert counts == [2, 1, 1, 0]
    assert queues["other"]["paused"]
    assert queues["other"]["blocked_by"] == {"needs task unknown": 1}
    assert told["running_total"] == 2
    running = {job["cancel_requested"]: job for job in told["running"]}
    assert running[False]["progress"]["note"] == "letter 3 of 4"
    assert (running[False]["worker"], running[False]["attempt"]) == ("ann", 1)
    assert {event["event"] for event in told["events"]} == {
        "blocked",
        "failed",
        "cancel_requested",
    }


@pytest.mark.usefixtures("store")
def test_neither_arguments_nor_secrets_are_shown(tmp_path: Path) -> None:
    for words in ((), ("--json",)):
        output = top(tmp_path, *words).stdout
        assert "hunter2" not in output
        assert "person-" not in output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--every", "soon"), 2, "--every is 'soon'"),
        (("--every", "0s"), 2, "write 0.1s or more"),
        (("--url", "sqlite:///nowhere.db"), 1, "there is no store"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    given = top(tmp_path, *words)
    assert given.returncode == code
    assert said in given.stderr
    assert "Traceback" not in given.stderr


class Terminal:
    """`limpet top` in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (30, 100))
        self.mode = termios.tcgetattr(self.slave)
        self.seen = ""
        self.process = subprocess.Popen(
            [*COMMAND, "--every", "0.2s"], cwd=folder, env=ENVIRONMENT, stdin=self.slave,
            stdout=self.slave, stderr=self.slave, start_new_session=True,
        )  # fmt: skip

    def read_until(self, wanted: str) -> str:
        """What came since the last call, up to where it matches."""
        until = time.monotonic() + 60
        while not (found := re.search(wanted, self.seen, re.DOTALL)):
            assert time.monotonic() < until, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(store: App, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("way", ["q", signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back_on_every_way_out(
    terminal: Terminal, way: str | signal.Signals
) -> None:
    terminal.read_until(r"\033\[\?1049h.*letter 3 of 4.*q quits")
    assert termios.tcgetattr(terminal.slave) != terminal.mode
    if isinstance(way, str):
        os.write(terminal.master, way.encode())
    else:
        terminal.process.send_signal(way)
    terminal.read_until(r"\033\[\?25h\033\[\?1049l")
    assert terminal.process.wait(60) == 0
    assert termios.tcgetattr(terminal.slave) == terminal.mode


def test_a_new_size_is_drawn_at_once_and_what_happens_is_seen(
    terminal: Terminal, store: App
) -> None:
    terminal.read_until(r"q quits")
    termios.tcsetwinsize(terminal.slave, (12, 40))
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.read_until(r"WORKERS")
    drawn = terminal.read_until(r"q quits[^\033]*\033\[")
    plain = re.sub(r"\033\[[?0-9;]*[a-zA-Z]?", "", drawn)
    assert max(len(line.strip("\r")) for line in plain.split("\n")) <= 40
    termios.tcsetwinsize(terminal.slave, (30, 100))
    terminal.process.send_signal(signal.SIGWINCH)
    store.client.store.pause("default")
    terminal.read_until(r"default[^\n]*paused")
