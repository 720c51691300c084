"""The command line, run as a person runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from acceptance.command import SHOP, Run


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
