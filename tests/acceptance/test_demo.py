"""`limpet demo` keeps its promises, and leaves nothing of itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.demo.diary import VARIABLE
from limpet.host.processes import LINUX

pytestmark = pytest.mark.skipif(not LINUX, reason="the guarantees are at home on Linux")

COMMAND = [sys.executable, "-m", "limpet.cli.main", "demo"]


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    # A user's own store and settings must not matter.
    return {
        **own,
        "TMPDIR": str(folder),
        "COLUMNS": "60",
        "LIMPET_URL": "nonsense",
        "LIMPET_LANES": "0",
    }


def assert_nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    alive = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"{VARIABLE}={folder}".encode() in text:
                alive.append(entry.name)
    assert alive == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "d"
    made.mkdir()
    return made


def test_every_promise_of_the_demo_is_kept(folder: Path, tmp_path: Path) -> None:
    given = subprocess.run(
        [*COMMAND, "--json"], cwd=tmp_path, env=environment(folder), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert given.returncode == 0, given.stdout + given.stderr
    told = json.loads(given.stdout)
    assert told["kept"]
    assert {check["verdict"] for check in told["checks"]} <= {"kept", "late"}
    assert len(told["checks"]) == 8
    by_process, by_worker = told["recoveries"]
    assert by_process["jobs"] == len(by_process["running_seconds"]) == 1
    assert by_worker["jobs"] == len(by_worker["running_seconds"]) >= 1
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
        # What a shell starts in the background ignores Ctrl-C, and so would the demo below it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if " jobs " in line:
                break
        demo.send_signal(number)
        rest = demo.stdout.read()
        assert demo.wait(60) == 128 + number
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert_nothing_is_left(folder)
