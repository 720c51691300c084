"""The command line, run as a person runs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.command import SHOP, Run
from acceptance.operations import Said, Say
from contract.driver import Holder

from limpet.cli.main import main
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store


@pytest.fixture
def limpet(tmp_path: Path) -> Run:
    (tmp_path / "shop.py").write_text(SHOP)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}

    def run(
        *words: str, app: str | None = "shop:app", input: str | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        target = ["--app", app] if app else []
        return subprocess.run(
            [sys.executable, "-m", "limpet.cli.main", *words, *target],
            cwd=tmp_path,
            env={**inherited, **environ},
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LIMPET_")]:
        monkeypatch.delenv(name)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def holder(store: Store) -> Holder:
    return Holder(store, ("task", "send", "add"))


@pytest.fixture
def limpet_here(url: str, store: Store, capsys: pytest.CaptureFixture[str]) -> Say:
    """The command line in this process, on the store."""

    def say(*words: str) -> Said:
        code = main([*words, "--url", url])
        return Said(code, *capsys.readouterr())

    return say
