"""The places of the installed peers, and which of them are missing. Standard library only."""

import json
import shutil
from importlib.metadata import Distribution
from pathlib import Path

HERE = Path(__file__).parent
VENVS = HERE.parent.parent / ".venv-peers"
REQUIREMENTS = HERE / "requirements"
PACKAGE = HERE / "package.json"


def python_systems() -> list[str]:
    """The peers that are written in Python, by the names of their files."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def venv(system: str) -> Path:
    """The virtual environment of a peer; each has its own, because what they need conflicts."""
    return VENVS / system.lower()


def requirements(system: str) -> Path:
    return REQUIREMENTS / f"{system.lower()}.txt"


def pins(system: str) -> dict[str, str]:
    """Package → version, as the peer's file has them; the peer itself comes first."""
    lines = requirements(system).read_text().split()
    return dict(line.split("==") for line in lines)


def python_missing(system: str) -> str | None:
    """Why a peer cannot be measured, in one sentence; None if it can."""
    found = _found(venv(system))
    for package, wanted in pins(system).items():
        name = package.partition("[")[0]
        if found.get(name) != wanted:
            return (
                f"{name} {wanted} is not in {VENVS.name}/{system.lower()} "
                f"({found.get(name, 'nothing')} is); run `make peers`."
            )
    return None


def _found(place: Path) -> dict[str, str]:
    folders = [str(folder) for folder in place.glob("lib/python*/site-packages")]
    return {
        each.metadata["Name"].lower(): each.version for each in Distribution.discover(path=folders)
    }


def bullmq_missing() -> str | None:
    """Why BullMQ cannot be measured, in one sentence; None if it can."""
    if shutil.which("node") is None:
        return "node is not on the PATH; run `make peers` as root, or install it."
    return modules_missing()


def node_pins() -> dict[str, str]:
    pinned: dict[str, str] = json.loads(PACKAGE.read_text())["dependencies"]
    return pinned


def modules_missing() -> str | None:
    """A package of node that is not installed in the pinned version; None if all are."""
    for package, wanted in node_pins().items():
        manifest = HERE / "node_modules" / package / "package.json"
        found = json.loads(manifest.read_text())["version"] if manifest.exists() else ""
        if found != wanted:
            return (
                f"{package} {wanted} is not in node_modules ({found or 'nothing'} is); "
                f"run `make peers`."
            )
    return None
