"""Runs the proof of two hosts with every fault of the network, and prints the result as JSON.

    python scripts/hosts.py faults STORE      each fault, with a lease of 5 s and of 10 s
    python scripts/hosts.py lossy STORE       ten minutes of a slow and lossy line, a lease of 5 s

Needs root on Linux. `scripts/prove.py` runs both.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
LEASES = (5, 10)
# The faults of the line, and how many seconds each lasts after the jobs are back.
FAULTS = {
    "cut": 2,
    "requests lost": 2,
    "answers lost": 2,
    "slow": 15,
    "lossy": 20,
    "flapping": 15,
}
# 300 ms each way, and 5 % of the packets are lost each way.
WORST_LINE, WORST_LEASE, WORST_RUNS, WORST_SECONDS = "slower and lossy", 5, 10, 60
MOST_LOST = 1
# The runs mostly wait, so several run at the same time.
AT_ONCE = int(os.environ.get("LIMPET_PROVE_AT_ONCE", "4"))


def run(store: str, lease: int, fault: str, seconds: int, seed: int) -> dict[str, Any]:
    """One run in a process of its own, because the process moves to a network of its own."""
    words = ["--store", store, "--lease", str(lease), "--fault", fault]
    words += ["--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "lifecycle.two_hosts", *words],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        lines = done.stderr.strip().splitlines()
        return {"lease": lease, "fault": fault, "troubles": [lines[-1] if lines else "no answer"]}
    found: dict[str, Any] = json.loads(done.stdout)
    if found["troubles"]:
        print(done.stderr, file=sys.stderr)
    return found


def faults(store: str) -> dict[str, Any]:
    """Every fault with every lease."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = [(store, *each, FAULTS[each[1]], 0) for each in product(LEASES, FAULTS)]
        found = list(pool.map(lambda case: run(*case), cases))
    parts = []
    for each in found:
        recovery = each.get("recovery_seconds")
        part = f"{each['fault']} at {each['lease']:g} s: "
        if recovery is not None:
            after = each["after_renewal_seconds"]
            part += f"back after {recovery:.2f} s ({after:.2f} s after the last renewal), "
        parts.append(part + f"{each.get('sessions_lost', '?')} sessions lost")
    overlaps = sum(each.get("overlaps", 0) for each in found)
    return {
        "summary": f"{overlaps} overlaps in {len(found)} runs; {'; '.join(parts)}",
        "overlaps": overlaps,
        "runs": found,
        "troubles": _troubles(found),
    }


def lossy(store: str) -> dict[str, Any]:
    """The worst line on which a worker must keep its lease."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(
            pool.map(
                lambda seed: run(store, WORST_LEASE, WORST_LINE, WORST_SECONDS, seed),
                range(WORST_RUNS),
            )
        )
    lost = [each.get("sessions_lost", 0) for each in found]
    packets = sum(each.get("packets_lost", 0) for each in found)
    overlaps = sum(each.get("overlaps", 0) for each in found)
    troubles = _troubles(found)
    if sum(lost) > MOST_LOST:
        troubles.append(f"{sum(lost)} sessions were lost: {lost}")
    return {
        "summary": f"{sum(lost)} sessions lost of two workers in {len(found)} runs of "
        f"{WORST_SECONDS} s, {overlaps} overlaps, {packets} packets lost",
        "overlaps": overlaps,
        "runs": found,
        "troubles": troubles,
    }


def _troubles(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{each['fault']} at {each['lease']:g} s: {trouble}"
        for each in found
        for trouble in each["troubles"]
    ]


def main(words: list[str]) -> int:
    what, store = words
    found = {"faults": faults, "lossy": lossy}[what](store)
    print(json.dumps(found))
    return 1 if found["troubles"] or found["overlaps"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
