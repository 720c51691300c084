"""Schedules and scanners, from the code of an app to the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import apsw
from acceptance.command import Run

from limpet import App

CLINIC = """
from limpet import App, ScanReport

app = App("sqlite:///{store}?synchronous=normal", vanished_schedules={vanished!r})

@app.task(queue="beats")
def beat(n: int = 0) -> int:
    # From within a task it goes through the supervisor.
    app.schedules.upsert("made", beat.call(n=n + 1), every="1h")
    return len(app.schedules.list())

@app.scanner(every="1s", queue="checks")
async def check() -> ScanReport:
    return ScanReport(found=3, repaired=2, notes=["one is left"])

{declared}
"""
DECLARED = 'app.every("1s", id="beating", args={"n": 7})(beat)'
PATIENCE_SECONDS = 30.0


def write(
    folder: Path, declared: str = DECLARED, vanished: str = "remove", store: str | Path = "jobs.db"
) -> None:
    code = CLINIC.format(declared=declared, vanished=vanished, store=store)
    (folder / "clinic.py").write_text(code)


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}
    words = [sys.executable, "-m", "limpet.cli.main", "worker", "clinic:app"]
    with subprocess.Popen(words, cwd=folder, env=inherited, stderr=subprocess.PIPE) as started:
        try:
            yield
        finally:
            started.send_signal(signal.SIGTERM)
            started.communicate(timeout=60)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def app_of(folder: Path) -> App:
    return App(f"sqlite:///{folder}/jobs.db?synchronous=normal")


def test_declared_schedules_tick_and_scanners_report(limpet: Run, tmp_path: Path) -> None:
    write(tmp_path)
    app = app_of(tmp_path)
    app.client.store.migrate()

    def fired(id_: str) -> int:
        found = app.client.store.schedule(id_)
        return 0 if found is None else found.fired

    with worker(tmp_path):
        until(lambda: fired("beating") >= 2 and fired("check") >= 2)
        until(lambda: app.client.store.schedule("made") is not None)
    listed = json.loads(limpet("schedules", "--json", app="clinic:app").stdout)
    by_id = {each["schedule"]: each for each in listed}
    assert set(by_id) == {"beating", "check", "made", "limpet:fsck"}
    assert by_id["made"]["args"] == {"n": 8}
    beating = by_id["beating"]
    assert (beating["task"], beating["queue"], beating["args"]) == ("beat", "beats", {"n": 7})
    assert (beating["every"], beating["declared"]) == ("1s", "clinic:app")
    assert by_id["check"]["overlap"] is False
    done = limpet("jobs", "--task", "check", "--state", "succeeded", "--json", app="clinic:app")
    job = json.loads(done.stdout)["jobs"][0]
    assert job["result"] == {"found": 3, "repaired": 2, "notes": ["one is left"]}
    assert "one is left" in limpet("job", "show", job["id"], app="clinic:app").stdout
    app.close()


def test_what_vanishes_from_the_code_is_removed_or_kept(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    store = app.client.store
    store.migrate()
    write(tmp_path)
    with worker(tmp_path):
        until(lambda: store.schedule("beating") is not None)
    write(tmp_path, declared="", vanished="keep")
    with worker(tmp_path):
        until(lambda: len(store.sessions()) == 1)
        time.sleep(0.5)
        assert store.schedule("beating") is not None
    write(tmp_path, declared="")
    with worker(tmp_path):
        until(lambda: store.schedule("beating") is None)
    app.close()


def test_older_version_that_starts_again_leaves_what_the_newer_one_declares(
    tmp_path: Path,
) -> None:
    app = app_of(tmp_path)
    store = app.client.store
    store.migrate()
    newer, older = tmp_path / "newer", tmp_path / "older"
    for folder, declared in ((newer, DECLARED), (older, "")):
        folder.mkdir()
        write(folder, declared=declared, store=tmp_path / "jobs.db")

    def fired() -> int:
        found = store.schedule("beating")
        return 0 if found is None else found.fired

    with worker(newer):
        until(lambda: fired() >= 1)
        with worker(older):
            until(lambda: store.schedule("made") is not None and len(store.sessions()) == 2)
            before = fired()
            until(lambda: fired() >= before + 2)
    with worker(older):
        until(lambda: store.schedule("beating") is None)
    app.close()


def test_declared_arguments_that_do_not_fit_are_told_by_the_worker(tmp_path: Path) -> None:
    write(tmp_path, declared='app.every("1s", id="beating", args={"m": 7})(beat)')
    words = [sys.executable, "-m", "limpet.cli.main", "worker", "clinic:app"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "unexpected keyword argument 'm'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_schedule_is_shown_paused_resumed_triggered_and_removed(
    limpet: Run, tmp_path: Path
) -> None:
    assert limpet("migrate").returncode == 0
    assert limpet("schedules").stdout == "no schedules\n"
    with closing(App(f"sqlite:///{tmp_path}/jobs.db")) as app:

        @app.task(queue="email")
        def send(to: str) -> None: ...

        app.schedules.upsert(
            "nightly", send.call(to="a@b.c"), cron="0 3 * * *", tz="Europe/Berlin", jitter="1m",
            overlap=False,
        )  # fmt: skip
    head, row = limpet("schedules").stdout.splitlines()
    assert head.split()[:3] == ["SCHEDULE", "TASK", "QUEUE"]
    assert row.split()[:3] == ["nightly", "send", "email"]
    assert "0 3 * * * (Europe/Berlin) + up to 1m" in row
    shown = json.loads(limpet("schedules", "show", "nightly", "--json").stdout)
    runs = [datetime.fromisoformat(each) for each in shown["next_runs"]]
    assert len(runs) == 5
    assert all((each.hour, each.minute) in ((3, 0), (3, 1)) for each in runs)
    assert limpet("schedules", "show", "nightly").stdout.count("next run") == 5

    assert "is paused" in limpet("schedules", "pause", "nightly").stdout
    assert "paused" in limpet("schedules").stdout
    assert "none while it is paused" in limpet("schedules", "show", "nightly").stdout
    assert "goes on" in limpet("schedules", "resume", "nightly").stdout
    made = json.loads(limpet("schedules", "trigger", "nightly", "--json").stdout)
    job = json.loads(limpet("job", "show", made["job"], "--json").stdout)
    assert (job["task"], job["queue"], job["args"]) == ("send", "email", {"to": "a@b.c"})
    busy = limpet("schedules", "trigger", "nightly")
    assert busy.returncode == 1
    assert made["job"] in busy.stderr
    assert "is removed" in limpet("schedules", "remove", "nightly").stdout
    for action in ("show", "pause", "resume", "trigger", "remove"):
        gone = limpet("schedules", action, "nightly")
        assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)
        assert "there is no schedule 'nightly'" in gone.stderr


def test_fsck_puts_right_what_it_can_and_says_so(limpet: Run, tmp_path: Path) -> None:
    limpet("enqueue", "add", '{"a": 1, "b": 2}')
    with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as raw:
        raw.execute("UPDATE limpet_gauge SET jobs = jobs + 5")
    assert limpet("fsck").returncode == 1
    done = limpet("fsck", "--repair")
    assert done.returncode == 0, done.stderr
    assert "gauges_are_right: put right 1 time\n" in done.stdout
    assert limpet("fsck").returncode == 0
    assert json.loads(limpet("fsck", "--repair", "--json").stdout) == {"mended": [], "broken": []}
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    totals = {each.move: each.count for each in app.client.store.totals()}
    assert totals["mend:gauges_are_right"] == 1
    app.close()
