"""What a machine lacks is told from a defect, which keeps its traceback."""

import asyncio
import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.cli import jobs
from limpet.cli import main as cli
from limpet.cli.target import Common
from limpet.host.shortage import is_lack
from limpet.storage.contract.store import Store
from limpet.worker.supervisor.session_parts import Defect, SessionParts
from limpet.worker.wire.begin import LACKED

LACKS = [
    OSError(errno.EMFILE, "Too many open files"),
    PermissionError(errno.EACCES, "Permission denied"),
    MemoryError(),
    RuntimeError("can't start new thread"),
    ImportError("libssl.so.3: failed to map segment from shared object"),
]
DEFECTS = [
    OSError("no number"),
    OSError(errno.EBADF, "Bad file descriptor"),
    RuntimeError("dictionary changed size during iteration"),
    RecursionError("maximum recursion depth exceeded"),
    ImportError("cannot import name 'x'"),
    TypeError("x"),
]


def test_a_lack_is_told_from_a_defect() -> None:
    assert [is_lack(error) for error in LACKS] == [True] * len(LACKS)
    assert [is_lack(error) for error in DEFECTS] == [False] * len(DEFECTS)


@pytest.mark.parametrize("error", [LACKS[0], DEFECTS[2]])
def test_a_part_that_fails_by_a_defect_has_its_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def part() -> None:
        raise error

    async def body() -> None:
        parts = SessionParts()
        parts.serve(part())
        with pytest.raises(Defect):
            await parts.any_of(asyncio.get_running_loop().create_future())

    with caplog.at_level(logging.ERROR):
        asyncio.run(body())
    assert [bool(record.exc_info) for record in caplog.records] == [not is_lack(error)]


@pytest.mark.parametrize("error", DEFECTS)
def test_a_command_that_fails_by_a_defect_has_its_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(common: Common) -> Store:
        raise error

    monkeypatch.setattr(jobs, "find_store", fails)
    with pytest.raises(type(error)):
        cli.main(["jobs"])


@pytest.mark.parametrize(
    ("raised", "code", "has_traceback"),
    [
        ('RuntimeError("of our own")', 1, True),
        ('OSError(24, "Too many open files")', LACKED, False),
    ],
)
def test_a_process_that_ends_by_a_defect_has_its_traceback(
    tmp_path: Path, raised: str, code: int, has_traceback: bool
) -> None:
    (tmp_path / "failing.py").write_text(f"raise {raised}\n")
    done = subprocess.run(
        [sys.executable, "-m", "limpet.worker.wire.begin", "failing"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert ("Traceback" in done.stderr) is has_traceback
