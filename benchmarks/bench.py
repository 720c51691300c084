"""Measures a Limpet worker beside Huey and BullMQ, and writes benchmarks/results/worker.md.

Run by `make bench`; `--quick` is a smoke run that writes nothing. The method, the settings and what
to make of the figures are in benchmarks/README.md.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw
import scale
import worker_drain
import worker_memory
import worker_pickup
import worker_recovery
from figures import Figures
from part import take
from peers.installed import PACKAGE, REQUIREMENTS

RESULT = Path(__file__).parent / "results" / "worker.md"
PARTS = [worker_drain.PART, worker_pickup.PART, worker_memory.PART, worker_recovery.PART]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run; writes no table")
    given = parser.parse_args()
    chosen = scale.QUICK if given.quick else scale.FULL
    figures = Figures()
    began = time.monotonic()
    for run in range(chosen.runs):
        for part in PARTS:
            figures.run = run
            take(part, chosen, figures)
    minutes = (time.monotonic() - began) / 60
    text = "\n".join([*heading(chosen, minutes), *body(figures)]) + "\n"
    print("\n" + text)
    if not given.quick:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(text, encoding="utf-8")
    return 0


def body(figures: Figures) -> list[str]:
    lines = []
    for part in PARTS:
        lines += [*part.report(figures), ""]
    if figures.troubles:
        lines += ["## Not measured", "", *(f"- {each}" for each in figures.troubles), ""]
    return lines[:-1]


def heading(chosen: scale.Scale, minutes: float) -> list[str]:
    node = json.loads(PACKAGE.read_text())["dependencies"]
    return [
        "# A worker, measured beside its peers",
        "",
        "Written by `make bench`; method, settings, caveats: [../README.md](../README.md).",
        "",
        f"One run of {minutes:.0f} minutes, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, SQLite "
        f"{apsw.sqlite_lib_version()}, {REQUIREMENTS.read_text().strip().replace('==', ' ')}, "
        f"BullMQ {node['bullmq']} with ioredis {node['ioredis']}, Node {_version('node')}, Redis "
        f"{_version('redis-server')}. Everything is measured in turn, {chosen.runs} times: "
        f"median (least to most). Drains of {chosen.jobs:,} jobs, Huey's of {chosen.slow_jobs:,}; "
        f"{chosen.pick_ups} pick-ups a run.",
        "",
    ]


def _version(program: str) -> str:
    if shutil.which(program) is None:
        return "(not there)"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    for word in said.stdout.split():
        if word.lstrip("v=")[:1].isdigit():
            return word.lstrip("v=")
    return "of unknown version"


if __name__ == "__main__":
    sys.exit(main())
