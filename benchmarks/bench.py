"""Measures Limpet on each store beside its peers; writes benchmarks/results/stores.md and a plot.

Run by `make bench`; `--quick` is a smoke run that writes nothing, `--only NAME` runs only the rows
with that in their name, and writes nothing either. The method, the settings and the meaning of the
figures are in benchmarks/README.md.
"""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import client_enqueue
import expected
import peer_recovery
import plot
import processes
import scale
import store_depth
import store_renewal
import store_snapshot
import worker_drain
import worker_memory
import worker_pickup
import worker_queues
import worker_recovery
from engines import POSTGRES, REDIS, SQLITE
from figures import Figures, table
from part import take
from peers.catalog import EVERY
from peers.installed import bullmq_missing, node_pins, pins

RESULTS = Path(__file__).parent / "results"
PARTS = [
    worker_drain.PART,
    worker_queues.PART,
    client_enqueue.PART,
    worker_pickup.PART,
    worker_memory.PART,
    peer_recovery.PART,
    worker_recovery.PART,
    store_depth.PART,
    store_snapshot.PART,
    store_renewal.PART,
]
# Figures in which the ratios between the peers must be near their known values.
CHECKED = [
    (worker_drain.RATE, "drain"),
    (client_enqueue.BULK, "bulk"),
    (client_enqueue.ONE, "one"),
]


def main() -> int:
    chosen = scale.from_command_line(__doc__)
    processes.leave_in_order()
    for engine in (SQLITE, REDIS, POSTGRES):
        print(engine.missing() or f"{engine.version()}: {engine.program() or 'a file'}", flush=True)
    figures = Figures()
    began = time.monotonic()
    for run in range(chosen.runs):
        for part in PARTS:
            figures.run = run
            take(part, chosen, figures)
    minutes = (time.monotonic() - began) / 60
    text = "\n".join([*heading(chosen, minutes), *verdict(figures), *body(figures), *settings()])
    print("\n" + text)
    if chosen == scale.FULL:
        write(text, figures)
    return 0


def write(text: str, figures: Figures) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "stores.md").write_text(text + "\n", encoding="utf-8")
    (RESULTS / "stores.svg").write_text(plot.drawn(figures), encoding="utf-8")


def heading(chosen: scale.Scale, minutes: float) -> list[str]:
    servers = "; ".join(each.version() for each in (SQLITE, REDIS, POSTGRES) if not each.missing())
    return [
        "# Limpet on each store, measured beside its peers",
        "",
        "Written by `make bench`; method, settings, caveats: [../README.md](../README.md).",
        "",
        f"One run of {minutes:.0f} minutes, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, Node {_node()}. Servers on "
        f"loopback, the same one for Limpet and the peers of a store: {servers}. Everything is "
        f"measured in turn, {chosen.runs} times: median (least to most). Drains of "
        f"{chosen.jobs:,} jobs, of a peer what it does in about {chosen.peer_seconds:g} s; "
        f"{chosen.pick_ups} pick-ups a run. All peers are at their best setting, which is at the "
        "end.",
        "",
        "![Drain and bulk enqueue](stores.svg)",
        "",
    ]


def verdict(figures: Figures) -> list[str]:
    """Whether the ratios between the peers are near their known values."""
    slow = [each for what, kind in CHECKED for each in expected.too_slow(figures, what, kind)]
    if not slow:
        return [
            f"No peer came out below {expected.LEAST_SHARE} of its known ratio to the others, in "
            "drain, bulk or one by one.",
            "",
        ]
    return [
        f"**This run is void**: a peer came out below {expected.LEAST_SHARE} of its known ratio to "
        "the others, so ratios against it mean nothing.",
        "",
        *(f"- {each}" for each in slow),
        "",
    ]


def body(figures: Figures) -> list[str]:
    lines = []
    for part in PARTS:
        lines += [*part.report(figures), ""]
    if figures.troubles:
        lines += ["## Not measured", "", *(f"- {each}" for each in figures.troubles), ""]
    return lines


def settings() -> list[str]:
    """The versions and the settings of the peers."""
    rows = []
    for peer in EVERY:
        known = node_pins() if peer.system == "BullMQ" else pins(peer.system)
        versions = ", ".join(f"{package} {version}" for package, version in known.items())
        rows.append([peer.name, versions, peer.settings, peer.tight or "none known"])
    return [
        "## Settings of the peers",
        "",
        "*Best*: for everything but recovery. *Tightest*: what makes it recover soonest.",
        "",
        *table(["peer", "versions", "best", "tightest"], rows),
    ]


def _node() -> str:
    if bullmq_missing():
        return "(not there)"
    printed = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return printed.stdout.strip().removeprefix("v")


if __name__ == "__main__":
    sys.exit(main())
