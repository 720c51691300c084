"""Runs the long proofs at full size and writes the results to benchmarks/results/prove.md.

    python scripts/prove.py [WORD …]

runs all proofs, or those whose name has one of the words; the last results of the others stay, with
their dates. `make test` runs the same code for a shorter time. The exit code is 1 if a proof does
not hold.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw
from crash import in_a_process
from writer_lock import LARGEST_RATIO, LONGEST_WAIT_SECONDS, run

ROOT = Path(__file__).parent.parent
REPORT = ROOT / "benchmarks" / "results" / "prove.md"
MEMORY = REPORT.with_suffix(".json")
TESTS = ROOT / "tests"
SECONDS = 20.0
KILLS = 500
STORM_JOBS = 2_000
STORM_KILLS = 30
SERVER_KILLS = 30
KEYED_JOBS, KEYS = 10_000, 100
CHILDREN = 1_000
RATE_SECONDS, RATE_WORKERS, MOST_OFF = 10, 4, 0.05
TICKS, TICK_KILLS = 1_000, 20
MONITOR_SECONDS = 60
FUZZED = 150
NAMES = {"sqlite": "SQLite", "redis": "Redis", "valkey": "Valkey", "postgres": "PostgreSQL"}


@dataclass(frozen=True)
class Proof:
    """The result of a proof: the promise, whether it held, and the figures."""

    promise: str
    held: bool
    figures: str
    troubles: list[str]


def fair_turns() -> Proof:
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder), SECONDS)
    held = (
        not result.troubles
        and result.wait() <= LONGEST_WAIT_SECONDS
        and result.ratio <= LARGEST_RATIO
    )
    return Proof(
        f"Four processes claim, settle and enqueue on one file for {SECONDS:.0f} s and renew every "
        f"100 ms: no renewal waits over {LONGEST_WAIT_SECONDS * 1000:.0f} ms, shares are within a "
        f"factor of {LARGEST_RATIO:.0f}, no job is lost or doubled.",
        held,
        result.summary(),
        result.troubles,
    )


def killed_at_random() -> Proof:
    found = in_a_process("random", str(KILLS))
    return Proof(
        f"A writer is killed with -9 at random points, {KILLS} times: after each kill "
        f"`integrity_check` and `fsck` are clean and nothing acknowledged is lost.",
        not found["troubles"] and found["kills"] == KILLS,
        f"{found['kills']} kills on {found['files']} files in {found['seconds']} s; "
        f"{found['enqueued']} jobs and {found['settled']} outcomes were acknowledged; seed "
        f"{found['seed']}; {len(found['troubles'])} troubles",
        found["troubles"],
    )


def killed_before_each_statement() -> Proof:
    found = in_a_process("statements")
    counts = ", ".join(f"{verb} {count}" for verb, count in found["killed"].items())
    return Proof(
        "A writer is killed with -9 before each statement of a verb, from its beginning to its "
        "commit: the file is as it was, never between.",
        not found["troubles"],
        f"statements killed at: {counts}; {len(found['troubles'])} troubles",
        found["troubles"],
    )


def workers_killed_every_second(store: str) -> Proof:
    sizes = ["--jobs", str(STORM_JOBS), "--workers", "3", "--kills", str(STORM_KILLS)]
    done = _run("-m", "lifecycle.storm", "--store", store, *sizes)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: {STORM_JOBS:,} jobs, three workers, a whole worker killed with -9 "
        f"every second for {STORM_KILLS} s: every job succeeds, no two attempts of one overlap, "
        f"every stale write is refused, nothing is left running.",
        done.returncode == 0
        and found["kills"] == STORM_KILLS
        and found["succeeded"] == STORM_JOBS
        and found["left_at_last_kill"] > 0
        and found["stale_refused"] == found["stale_writes"] > 0,
        found["summary"],
        found["troubles"],
    )


def one_of_a_key_at_a_time(store: str) -> Proof:
    sizes = ["--jobs", str(KEYED_JOBS), "--keys", str(KEYS), "--workers", "4"]
    done = _run("-m", "lifecycle.storm", "--store", store, *sizes, "--kills", str(STORM_KILLS))
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: {KEYED_JOBS:,} jobs on {KEYS} keys, four workers, a whole worker "
        f"killed with -9 every second for {STORM_KILLS} s: never two of a key at once, the order "
        f"of each kept, every job succeeds.",
        done.returncode == 0
        and found["kills"] == STORM_KILLS
        and found["succeeded"] == KEYED_JOBS
        and found["left_at_last_kill"] > 0,
        found["summary"],
        found["troubles"],
    )


def a_flow_with_workers_killed(store: str) -> Proof:
    sizes = ["--jobs", str(CHILDREN), "--flow", "--workers", "3", "--kills", str(STORM_KILLS)]
    done = _run("-m", "lifecycle.storm", "--store", store, *sizes)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: a flow of {CHILDREN:,} children, three workers, one of them killed "
        f"with -9 every second for {STORM_KILLS} s: the parent runs once, after all of them, and "
        f"finds every result.",
        done.returncode == 0
        and found["kills"] == STORM_KILLS
        and found["succeeded"] == CHILDREN + 1
        and found["left_at_last_kill"] > 0,
        found["summary"],
        found["troubles"],
    )


def a_rate_is_held(store: str) -> Proof:
    sizes = ["--seconds", str(RATE_SECONDS), "--workers", str(RATE_WORKERS)]
    done = _run("-m", "lifecycle.rate", "--store", store, *sizes)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: a queue with a rate of 50/s is served at that rate, within "
        f"{MOST_OFF:.0%}, over {RATE_SECONDS} s by {RATE_WORKERS} workers together.",
        done.returncode == 0 and found["off"] <= MOST_OFF,
        found["summary"],
        found["troubles"],
    )


def each_tick_is_fired_once(store: str) -> Proof:
    sizes = [str(TICKS), str(TICK_KILLS)]
    done = _run(str(ROOT / "scripts" / "ticks.py"), store, *sizes)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: two schedulers in processes of their own at the very same {TICKS:,} "
        f"ticks, under load, one of them killed with -9 {TICK_KILLS} times: exactly {TICKS:,} "
        f"jobs.",
        done.returncode == 0
        and found["kills"] == TICK_KILLS
        and found["jobs"] == found["fired"] == TICKS,
        found["summary"],
        found["troubles"],
    )


def measuring_costs_little(store: str) -> Proof:
    done = _run(str(ROOT / "scripts" / "monitor_cost.py"), store, str(MONITOR_SECONDS))
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: the monitor of a host with 20 executors costs under 1 % of a core "
        f"over {MONITOR_SECONDS} s, its writes to the store included.",
        done.returncode == 0,
        found["summary"],
        found["troubles"],
    )


def two_hosts_and_a_bad_network(store: str) -> Proof:
    done = _run(str(ROOT / "scripts" / "hosts.py"), "faults", store)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: two hosts with names, boots, run directories and networks of their "
        f"own; the line of one is cut both ways or one way, slow, lossy or flapping, with leases "
        f"of 5 s and 10 s: no two runs of a job overlap, the other host has the jobs within the "
        f"lease + 0.5 s, the healed host goes on (root).",
        done.returncode == 0,
        found["summary"],
        found["troubles"],
    )


def a_lease_on_a_lossy_line(store: str) -> Proof:
    done = _run(str(ROOT / "scripts" / "hosts.py"), "lossy", store)
    found = json.loads(done.stdout)
    return Proof(
        f"On {NAMES[store]}: 300 ms each way and 5 % of the packets lost each way, a lease of "
        f"5 s: at most one session of two workers is lost in ten runs of 60 s (root).",
        done.returncode == 0,
        found["summary"],
        found["troubles"],
    )


def limits_of_a_real_control_group() -> Proof:
    done = _run(str(ROOT / "scripts" / "real_group.py"))
    found = json.loads(done.stdout)
    return Proof(
        "In a control group with half a core and 300 MB, both in use, the monitor reports these "
        "limits, their use, and that the CPU is throttled (root).",
        done.returncode == 0,
        found["summary"],
        found["troubles"],
    )


def server_killed_at_random(kind: str) -> Proof:
    done = _run(str(ROOT / "scripts" / "server_crash.py"), kind, str(SERVER_KILLS))
    found = json.loads(done.stdout)
    return Proof(
        f"{NAMES[kind]} is killed with -9 at random points under three writers, {SERVER_KILLS} "
        f"times: after each start nothing acknowledged is lost and `fsck` is clean.",
        done.returncode == 0 and found["kills"] == SERVER_KILLS and found["cut"] > SERVER_KILLS,
        found["summary"],
        found["troubles"],
    )


def contract_on_the_older_postgresql() -> Proof:
    return _tested(
        "PostgreSQL 15 keeps the whole contract, as the newer one does in `make test`.",
        [str(TESTS / "contract"), "-k", "postgres15"],
        LIMPET_TEST_LONG="1",
    )


def every_store_does_what_the_model_does() -> Proof:
    return _tested(
        "Every store does what a small pure model does, through 220 runs of 50 random steps each; "
        "`make test` has 60.",
        [str(TESTS / "contract" / "test_model.py")],
        LIMPET_TEST_LONG="1",
    )


def frames_of_any_content() -> Proof:
    return _tested(
        "Bytes, mutated frames and well-formed nonsense, 5,000 of each, both ways through real "
        "splitter, decoder and dispatcher: each raises one error, which ends that executor, and "
        "settles nothing that the executor may not settle; `make test` has 150.",
        [str(TESTS / "unit" / "test_frames_fuzz.py")],
        LIMPET_TEST_LONG="1",
    )


def nonsense_in_rows_stops_nothing() -> Proof:
    return _tested(
        f"On every store: {FUZZED} stores with random nonsense in random fields; all other rows "
        f"are claimed, fired, swept, recovered, listed and pruned all the same.",
        [str(TESTS / "contract" / "test_hostile_fuzz.py")],
        LIMPET_TEST_FUZZ=str(FUZZED),
    )


def stores_that_fail() -> Proof:
    names = ("test_clock", "long_clock", "test_outage", "test_rollback", "long_rollback")
    return _tested(
        "Redis, Valkey and PostgreSQL under running workers: clocks set by 30 s, servers gone for "
        "5 s and for longer than the lease, lost replies, primaries with older data: nothing is "
        "lost, doubled, charged or run twice at once.",
        [str(TESTS / "lifecycle" / f"{name}.py") for name in names],
        LIMPET_TEST_LONG="1",
    )


def clones_and_mounts_that_hang() -> Proof:
    names = ("test_clone", "test_hung_proof")
    return _tested(
        "On each store: a clone of a living machine takes none of its jobs, and a mount that hangs "
        "keeps no lease from its end (root); `make test` has one store of each.",
        [str(TESTS / "lifecycle" / f"{name}.py") for name in names],
        LIMPET_TEST_LONG="1",
    )


def root_without_a_namespace() -> Proof:
    return _tested(
        "Every lifecycle test of a worker's processes holds for root without a pid namespace; "
        "`make test` has those of kills and of containment there, and all as another user.",
        [str(TESTS / "lifecycle"), "-k", "plain"],
        LIMPET_TEST_LONG="1",
    )


def workers_short_of_something() -> Proof:
    return _tested(
        "A worker that was ready and cannot start again goes on trying, with growing pauses.",
        [str(TESTS / "worker" / "long_little_room.py")],
    )


def commands_that_are_stopped() -> Proof:
    return _tested(
        "A `limpet gate run` that is stopped for less than its lease goes on; while it waits for "
        "room it may be stopped for longer, and it waits for a full disk, too.",
        [str(TESTS / "permits" / "long_gate_run.py")],
    )


def fan_outs_that_are_killed() -> Proof:
    return _tested(
        "A worker is killed with -9 while a job stages its children, after that, and while they "
        "are written out: all children are there, or none.",
        [str(TESTS / "lifecycle" / "test_shaping.py"), "-k", "fans_out"],
        LIMPET_TEST_LONG="1",
    )


def requests_that_are_nonsense() -> Proof:
    return _tested(
        "Requests of tasks to the supervisor, forty times as many as in `make test`: bytes, "
        "well-formed nonsense and values at their bounds are served, or end the executor that "
        "sent them; answers raise only our errors; each request and answer arrives as it was "
        "sent.",
        [str(TESTS / "unit" / f"test_{name}.py") for name in ("task_requests", "request_server")],
        LIMPET_TEST_LONG="1",
    )


def _tested(promise: str, words: list[str], **more: str) -> Proof:
    done = _run("-m", "pytest", "-q", *words, **more)
    lines = done.stdout.splitlines()
    return Proof(
        promise,
        done.returncode == 0,
        lines[-1] if lines else "nothing was run",
        [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))],
    )


def _run(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **more, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )


PROOFS: list[Callable[[], Proof]] = [
    fair_turns,
    killed_at_random,
    killed_before_each_statement,
    *(partial(workers_killed_every_second, store) for store in NAMES),
    *(partial(one_of_a_key_at_a_time, store) for store in NAMES),
    *(partial(a_flow_with_workers_killed, store) for store in NAMES),
    *(partial(a_rate_is_held, store) for store in NAMES),
    *(partial(each_tick_is_fired_once, store) for store in NAMES),
    *(partial(measuring_costs_little, store) for store in NAMES if store != "valkey"),
    *(partial(two_hosts_and_a_bad_network, store) for store in ("redis", "postgres")),
    partial(a_lease_on_a_lossy_line, "postgres"),
    limits_of_a_real_control_group,
    *(partial(server_killed_at_random, kind) for kind in NAMES if kind != "sqlite"),
    contract_on_the_older_postgresql,
    every_store_does_what_the_model_does,
    frames_of_any_content,
    nonsense_in_rows_stops_nothing,
    stores_that_fail,
    fan_outs_that_are_killed,
    commands_that_are_stopped,
    requests_that_are_nonsense,
    clones_and_mounts_that_hang,
    root_without_a_namespace,
    workers_short_of_something,
]


def name_of(prove: Callable[[], Proof]) -> str:
    """The name by which a proof is chosen and remembered."""
    if isinstance(prove, partial):
        return f"{prove.func.__name__} {prove.args[0]}"
    return prove.__name__


def main(words: list[str]) -> int:
    known: dict[str, dict[str, object]] = {}
    if MEMORY.exists():
        known = json.loads(MEMORY.read_text(encoding="utf-8"))
    chosen = [each for each in PROOFS if not words or any(word in name_of(each) for word in words)]
    held = True
    for prove in chosen:
        began = time.monotonic()
        proof = prove()
        held = held and proof.held
        print(f"({time.monotonic() - began:.0f} s) ", end="")
        print(f"{'held' if proof.held else 'BROKEN'}: {proof.figures}", flush=True)
        for trouble in proof.troubles[:10]:
            print(f"  {trouble}")
        known[name_of(prove)] = {
            "promise": proof.promise,
            "held": proof.held,
            "figures": proof.figures,
            "day": time.strftime("%Y-%m-%d"),
        }
        MEMORY.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        REPORT.write_text("\n".join(_report(known)) + "\n", encoding="utf-8")
    return 0 if held else 1


def _report(known: dict[str, dict[str, object]]) -> list[str]:
    lines = [
        "# The long proofs, as last run",
        "",
        "Written by `make prove`. `make test` runs the same for a shorter time.",
        "",
        f"Python {platform.python_version()}, apsw {apsw.apsw_version()}, SQLite "
        f"{apsw.sqlite_lib_version()}, {platform.system()} {platform.machine()}, "
        f"synchronous=full.",
        "",
        "| promise | held | figures | day |",
        "|---|---|---|---|",
    ]
    for name in (name_of(each) for each in PROOFS):
        if name in known:
            row = known[name]
            verdict = "yes" if row["held"] else "**no**"
            lines.append(f"| {row['promise']} | {verdict} | {row['figures']} | {row['day']} |")
        else:
            lines.append(f"| {name.replace('_', ' ')} | not run yet | | |")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
