"""Breaks the scripts on purpose, one place at a time; the contract suite must fail for each.

    python scripts/mutants.py [STORE …] [WORD …]

runs all mutations, or those of a store (sqlite, redis, postgres), or those whose description has a
word.

Each mutation is made in a copy of the sources, which the tests then import. The unchanged copy is
tested first: a suite that fails anyway catches nothing.
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

import mutations_gate
import mutations_postgres
import mutations_postgres_shaping
import mutations_redis
import mutations_reservations
import mutations_sqlite
from mutation import FOLDERS, ROOT, Mutation

AT_ONCE = 2
TIMEOUT_SECONDS = 1_800


MUTATIONS: tuple[Mutation, ...] = (
    *mutations_sqlite.MUTATIONS,
    *mutations_redis.MUTATIONS,
    *mutations_postgres.MUTATIONS,
    *mutations_postgres_shaping.MUTATIONS,
    *mutations_gate.MUTATIONS,
    *mutations_reservations.MUTATIONS,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the suite for a copy: the test that failed, or None if all passed."""

    failed: str | None
    seconds: float


def mutated(source: Path, mutation: Mutation) -> None:
    """Make the mutation in a copy of the sources."""
    path = source / mutation.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file} no longer has exactly once: {mutation.old!r}")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def try_out(store: str, mutation: Mutation | None) -> Verdict:
    """Run a store's contract suite on a copy of the sources; without a mutation, unchanged."""
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
        command += ["-k", f"{store} and not postgres15"]  # the same SQL, twice
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    # 0: all passed, 1: a test failed; any other code means that no test ran.
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run:\n{done.stdout}\n{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    name = lines[0].split()[1].removeprefix("tests/contract/") if lines else "?"
    return Verdict(name if done.returncode else None, time.monotonic() - started)


def _tests() -> list[str]:
    """The files of the contract suite; the model last, because shrinking a failure takes long."""
    files = sorted((ROOT / "tests" / "contract").glob("test_*.py"))
    return [str(file) for file in sorted(files, key=lambda file: file.stem == "test_model")]


def _check_import(source: Path, environment: dict[str, str]) -> None:
    """Make sure that the tests import the copy, not the installed package."""
    imported = subprocess.run(
        [sys.executable, "-c", "import limpet; print(limpet.__file__)"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not Path(imported).is_relative_to(source):
        raise SystemExit(f"the tests would import {imported} instead of the copy in {source}")


def main(words: list[str]) -> int:
    stores = [store for store in FOLDERS if store in words] or list(FOLDERS)
    words = [word for word in words if word not in FOLDERS]
    chosen = [
        each
        for each in MUTATIONS
        if each.store in stores and (not words or any(word in each.breaks for word in words))
    ]
    if not chosen:
        print(f"no mutation has {' or '.join(words)} in its description")
        return 2
    for store in {each.store: None for each in chosen}:
        whole = try_out(store, None)
        if whole.failed is not None:
            print(f"the unchanged sources fail {whole.failed}, so mutants would prove nothing")
            return 1
        print(f"{store:<24} {'as it is':<62} all passed ({whole.seconds:.0f} s)", flush=True)
    survivors = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = pool.map(lambda each: try_out(each.store, each), chosen)
        for mutation, verdict in zip(chosen, verdicts, strict=True):
            survivors += verdict.failed is None
            caught = f"caught by {verdict.failed}" if verdict.failed else "SURVIVED"
            line = f"{mutation.file:<24} {mutation.breaks:<62} {caught} ({verdict.seconds:.0f} s)"
            print(line, flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
