"""Checks the reading of the monitor inside a real control group with limits of CPU and memory.

Run by hand: `python scripts/real_group.py`, as root, because it creates groups; it prints the
result as JSON. Each limit is set in version 2 if that has the controller, else in version 1.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from limpet.domain.assessment import Waiting, admit
from limpet.domain.clock import SystemClock
from limpet.domain.permit import Taken
from limpet.domain.weight import Weight
from limpet.gate.assess import assess
from limpet.gate.measure.capacity import bounds_of_self
from limpet.gate.measure.monitor import Monitor

TREE = Path("/sys/fs/cgroup")
CORES, MEMORY, HELD = 0.5, 300_000_000, 100_000_000
_PERIOD = 100_000
_POLLS = 4


@contextlib.contextmanager
def groups() -> Iterator[dict[Path, int]]:
    """Groups with both limits, and the version of each group."""
    name = f"limpet-prove-{os.getpid()}"
    made: dict[Path, int] = {}
    try:
        for controller in ("cpu", "cpuacct", "memory"):
            top, version = _top(controller)
            folder = top / name
            if version == 2 and controller != "cpuacct":
                (top / "cgroup.subtree_control").write_text(f"+{controller}")
            if folder not in made:
                folder.mkdir()
                made[folder] = version
            for file, text in _limits(controller, version):
                (folder / file).write_text(text)
        yield made
    finally:
        for folder in made:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.1)


def _top(controller: str) -> tuple[Path, int]:
    in_version_2 = "cpu" if controller == "cpuacct" else controller
    for folder in (TREE, TREE / "unified"):
        file = folder / "cgroup.controllers"
        if file.exists() and in_version_2 in file.read_text().split():
            return folder, 2
    return TREE / controller, 1


def _limits(controller: str, version: int) -> list[tuple[str, str]]:
    quota = str(round(CORES * _PERIOD))
    if controller == "memory":
        return [("memory.max" if version == 2 else "memory.limit_in_bytes", str(MEMORY))]
    if controller == "cpuacct":
        return []
    if version == 2:
        return [("cpu.max", f"{quota} {_PERIOD}")]
    return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", quota)]


def inside() -> int:
    """In the groups: hold memory, use all CPU that is allowed, and print the monitor's reading."""
    burner = subprocess.Popen([sys.executable, "-c", f"held = bytearray({HELD})\nwhile True: pass"])
    try:
        monitor = Monitor("group", SystemClock())
        for _ in range(_POLLS):
            time.sleep(1)
            reading = monitor.poll()
    finally:
        burner.kill()
        burner.wait()
    judged = assess("group", reading, bounds_of_self().capacity, reading.at_boot)
    waiting = admit(Weight(cpu=0.1), judged, Taken())
    print(
        json.dumps(
            {
                "cores": reading.cores,
                "cpu": reading.cpu_raw,
                "throttled": reading.throttled,
                "memory": reading.memory_total,
                "free": reading.memory_free,
                "source": reading.source,
                "reason": waiting.reason if isinstance(waiting, Waiting) else "",
            }
        )
    )
    return 0


def troubles(found: dict[str, object], versions: set[int]) -> list[str]:
    """The figures that do not fit the limits that were set."""
    reason = str(found["reason"])
    cpu, throttled, free = (float(str(found[each])) for each in ("cpu", "throttled", "free"))
    right = {
        "cores": found["cores"] == CORES,
        "memory": abs(int(str(found["memory"])) - MEMORY) < 1 << 16,
        "cpu": 35 <= cpu <= 50,
        "throttled": throttled >= 80,
        "free": MEMORY - 2 * HELD < free <= MEMORY - HELD,
        "source": all(f"cgroup v{each}" in str(found["source"]) for each in versions),
        "reason": reason.startswith("waiting: group CPU"),
    }
    return [f"{name}: {found[name]}" for name, held in right.items() if not held]


def main() -> int:
    if "--inside" in sys.argv:
        return inside()
    with groups() as made:
        enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in made)
        own = [sys.executable, __file__, "--inside"]
        done = subprocess.run(
            ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *own],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        versions = set(made.values())
    found = json.loads(done.stdout)
    wrong = troubles(found, versions)
    summary = (
        f"control groups of version {' and '.join(str(each) for each in sorted(versions))}: "
        f"{found['cores']} cores, {found['cpu']} % used, throttled in {found['throttled']} % of "
        f"the periods, {found['free'] / 1e6:.0f} of {found['memory'] / 1e6:.0f} MB free; reason: "
        f"{found['reason']}"
    )
    print(json.dumps({"summary": summary, "troubles": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
