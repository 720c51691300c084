"""Where the peers are, and which of them are missing. Standard library only."""

import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
VENV = HERE.parent.parent / ".venv-peers"
REQUIREMENTS = HERE / "requirements.txt"
PACKAGE = HERE / "package.json"


def huey_missing() -> str | None:
    """Why Huey can not be measured, in one sentence."""
    wanted = REQUIREMENTS.read_text().strip().rpartition("==")[2]
    found = _huey_version()
    if found != wanted:
        return f"Huey {wanted} is not in {VENV.name} ({found or 'nothing'} is); run `make peers`."
    return None


def _huey_version() -> str:
    python = VENV / "bin" / "python"
    if not python.exists():
        return ""
    ask = "import importlib.metadata as m; print(m.version('huey'))"
    answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def bullmq_missing() -> str | None:
    """Why BullMQ can not be measured, in one sentence."""
    for program in ("redis-server", "node"):
        if shutil.which(program) is None:
            return f"{program} is not on the PATH; run `make peers` as root, or install it."
    return modules_missing()


def modules_missing() -> str | None:
    """Which package of node is not there in the version that is asked for."""
    for package, wanted in json.loads(PACKAGE.read_text())["dependencies"].items():
        manifest = HERE / "node_modules" / package / "package.json"
        found = json.loads(manifest.read_text())["version"] if manifest.exists() else ""
        if found != wanted:
            return (
                f"{package} {wanted} is not in node_modules ({found or 'nothing'} is); "
                f"run `make peers`."
            )
    return None
