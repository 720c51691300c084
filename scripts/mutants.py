"""Break the SQL on purpose, one statement at a time; the contract suite must notice each.

    python scripts/mutants.py [WORD …]      all of them, or those whose description has a word

Each mutation is made in a copy of the sources, which the tests then import instead of these. The
copy is first tested as it is: a suite that fails anyway catches nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SQL = Path("limpet/storage/sqlite/sql")
AT_ONCE = 2
PATIENCE_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text of one SQL file and what to put in its place; `breaks` says what no longer holds."""

    file: str
    old: str
    new: str
    breaks: str


MUTATIONS = (
    Mutation(
        "fence.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value ->> 1",
        "WHERE j.state = 'running' AND j.session = :session",
        "the fence lets every token pass",
    ),
    Mutation(
        "fence.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value ->> 1",
        "WHERE j.state = 'running' AND j.token = e.value ->> 1",
        "the fence lets every session pass",
    ),
    Mutation(
        "fence.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value ->> 1",
        "WHERE j.session = :session AND j.token = e.value ->> 1",
        "the fence lets a holder settle twice",
    ),
    Mutation(
        "fence.sql",
        "\n             AND v.settled = e.value ->> 2)",
        ")",
        "a recovered job's old holder is told that it settled",
    ),
    Mutation(
        "fence.sql",
        "    WHERE j.state = 'running' AND j.session = :session AND j.token = e.value)",
        "    WHERE j.state = 'running' AND j.session = :session)",
        "a late holder says that a job has begun",
    ),
    Mutation(
        "settle.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value",
        "WHERE j.state = 'running' AND j.session = :session",
        "the fence lets a job be completed under every token",
    ),
    Mutation(
        "settle.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value",
        "WHERE j.state = 'running' AND j.token = e.value",
        "the fence lets every session complete a job",
    ),
    Mutation(
        "settle.sql",
        "WHERE j.state = 'running' AND j.session = :session AND j.token = e.value",
        "WHERE j.session = :session AND j.token = e.value",
        "the fence lets a holder complete a job twice",
    ),
    Mutation(
        "settle.sql",
        " FILTER (WHERE j.failures + j.orphans > 0)",
        " FILTER (WHERE false)",
        "a job that succeeded keeps the error of an earlier attempt",
    ),
    Mutation(
        "claim.sql",
        "WHERE j.state = 'running' AND j.session = :session",
        "WHERE j.state = 'running'",
        "a repeated exchange is given jobs that another holds by now",
    ),
    Mutation(
        "claim.sql",
        "ORDER BY sort_key, n",
        "ORDER BY sort_key DESC, n",
        "the line is served from its end",
    ),
    Mutation(
        "claim.sql",
        "token = token + 1",
        "token = token",
        "a claim gets no new token",
    ),
    Mutation(
        "claim.sql",
        "\n      AND (lapses_at IS NULL OR lapses_at > :now)",
        "",
        "an expired job is claimed",
    ),
    Mutation(
        "claim.sql",
        " AND coalesce(q.paused, 0) = 0",
        "",
        "a paused queue is claimed from",
    ),
    Mutation(
        "claim.sql",
        " WHERE s.state <> 'dead'",
        "",
        "a dead session counts as one that knows a task",
    ),
    Mutation(
        "enqueue.sql",
        "ON CONFLICT (id) DO NOTHING",
        "ON CONFLICT (id) DO UPDATE SET queue = excluded.queue",
        "a repeat of an enqueue changes the job",
    ),
    Mutation(
        "enqueue.sql",
        "state IN ('ready', 'scheduled', 'blocked')",
        "state = 'ready'",
        "the cap does not count what waits for its time",
    ),
    Mutation(
        "exchange.sql",
        "seq = excluded.seq, body = excluded.body",
        "seq = excluded.seq",
        "a repeated exchange gets an older answer",
    ),
    Mutation(
        "exchange.sql",
        "held_total = (held_total + :total) & 281474976710655",
        "held_total = held_total",
        "the digest does not follow claims",
    ),
    Mutation(
        "session.sql",
        "SET moment = :moment, renewed_at = :now",
        "SET renewed_at = :now",
        "a renewal does not hold the lease any longer",
    ),
    Mutation(
        "session.sql",
        "WHERE id = :id AND state <> 'dead'\n\n-- statement: cancels",
        "WHERE id = :id\n\n-- statement: cancels",
        "a dead session can be ended again, with another cause",
    ),
    Mutation(
        "session.sql",
        "WHERE session = :session AND state = 'running' AND cancel_requested_at IS NOT NULL",
        "WHERE state = 'running' AND cancel_requested_at IS NOT NULL",
        "a session is told to stop the jobs of others",
    ),
    Mutation(
        "recover.sql",
        "moment <= :now_lease",
        "moment < :now_lease",
        "a session outlives its moment",
    ),
    Mutation(
        "recover.sql",
        "WHERE id = :session AND state = 'dead'",
        "WHERE id = :session",
        "the jobs of a living session are recovered",
    ),
    Mutation(
        "recover.sql",
        "WHERE j.session = :session AND j.state = 'running'",
        "WHERE j.session = :session",
        "finished jobs of a dead session are recovered",
    ),
    Mutation(
        "settle.sql",
        "failures = ?, orphans = ?",
        "orphans = ?, failures = ?",
        "failures are counted as losses",
    ),
    Mutation(
        "promote.sql",
        "WHERE state = 'scheduled' AND ready_at <= :now",
        "WHERE state = 'scheduled' AND ready_at < :now",
        "a job is not ready at the moment it is due",
    ),
    Mutation(
        "prune.sql",
        "\n  AND created_at < :created_before",
        "",
        "a job is pruned within the window in which a repeat is safe",
    ),
    Mutation(
        "prune.sql",
        " AND finished_at < :finished_before",
        "",
        "retention counts from the beginning of a job",
    ),
    Mutation(
        "control.sql",
        "UPDATE limpet_job SET cancel_requested_at = :now WHERE n = :n",
        "UPDATE limpet_job SET cancel_requested_at = NULL WHERE n = :n",
        "the request to cancel a running job is forgotten",
    ),
    Mutation(
        "control.sql",
        "round = round + 1, failures = 0, orphans = 0, strikes = 0",
        "round = round + 1, failures = 0, orphans = 0",
        "a new round starts with old strikes",
    ),
    Mutation(
        "inspect.sql",
        "WHERE n < :before\n",
        "WHERE n <= :before\n",
        "a page repeats the last job of the page before",
    ),
    Mutation(
        "transaction.sql",
        "jobs = jobs + excluded.jobs",
        "jobs = excluded.jobs",
        "the count of jobs by state is wrong",
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite said to a copy: the test that failed, or None if all passed."""

    failed: str | None
    seconds: float


def mutated(source: Path, mutation: Mutation) -> None:
    """Make the mutation in a copy of the sources."""
    path = source / SQL / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file} no longer has exactly once: {mutation.old!r}")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def try_out(mutation: Mutation | None) -> Verdict:
    """Run the contract suite on a copy of the sources; without a mutation, as they are."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="limpet-mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            mutated(source, mutation)
        environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        _check_import(source, environment)
        command = [sys.executable, "-m", "pytest", *_tests(), "-x", "-q", "--no-header"]
        command += ["--tb=no", "-p", "no:cacheprovider", f"--basetemp={folder}/tmp"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    # 0: all passed, 1: a test failed; anything else means that no test was asked.
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run:\n{done.stdout}\n{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    name = lines[0].split()[1].removeprefix("tests/contract/") if lines else "?"
    return Verdict(name if done.returncode else None, time.monotonic() - started)


def _tests() -> list[str]:
    """The contract suite, the model last: when it fails it goes on to look for a shorter way."""
    files = sorted((ROOT / "tests" / "contract").glob("test_*.py"))
    return [str(file) for file in sorted(files, key=lambda file: file.stem == "test_model")]


def _check_import(source: Path, environment: dict[str, str]) -> None:
    """Make sure that the copy is what the tests import, not the installed package."""
    told = subprocess.run(
        [sys.executable, "-c", "import limpet; print(limpet.__file__)"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not Path(told).is_relative_to(source):
        raise SystemExit(f"the tests would import {told} instead of the copy in {source}")


def main(words: list[str]) -> int:
    chosen = [each for each in MUTATIONS if not words or any(word in each.breaks for word in words)]
    if not chosen:
        print(f"no mutation has {' or '.join(words)} in its description")
        return 2
    whole = try_out(None)
    if whole.failed is not None:
        print(f"the sources as they are fail {whole.failed}; nothing can be said of mutants")
        return 1
    print(f"{'as it is':<16} {'':<62} all passed ({whole.seconds:.0f} s)", flush=True)
    survivors = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mutation, verdict in zip(chosen, pool.map(try_out, chosen), strict=True):
            survivors += verdict.failed is None
            caught = f"caught by {verdict.failed}" if verdict.failed else "SURVIVED"
            told = f"{mutation.file:<16} {mutation.breaks:<62} {caught} ({verdict.seconds:.0f} s)"
            print(told, flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
