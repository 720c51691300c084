"""When attempts ran, as they and their subprocesses recorded it, and whether two overlapped.

An attempt lasts from its begin to the last record of anything that carries its token, subprocesses
and daemons included.
"""

import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

from lifecycle.recorder import EVERY_SECONDS, LAST_FIELD, Recorder

Role = Literal["job", "subprocess", "daemon", "thread", "hook"]
Kind = Literal["begin", "sample", "end"]
ROLES: tuple[Role, ...] = ("job", "subprocess", "daemon", "thread", "hook")
KINDS: tuple[Kind, ...] = ("begin", "sample", "end")


class Record(NamedTuple):
    """One line of the file; `at` is BOOTTIME in nanoseconds, `pid` as its writer sees it."""

    at: int
    job: str
    token: int
    pid: int
    role: Role
    kind: Kind


class Records:
    """The records of a file, each of which is read once.

    Whoever waits for a record looks a hundred times a second. To read ten thousand again each time
    takes most of a core, from writers that run at a lower priority.
    """

    def __init__(self, file: str | Path) -> None:
        self._file = Path(file)
        self._position = 0
        self._found: list[Record] = []

    def read(self) -> list[Record]:
        """All of them in the order of their times; half lines of killed writers are left out."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return []
        # What follows the last line break may be half of what is just being written.
        whole = new[: new.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.decode("utf-8", errors="replace").split("\n")
        self._found += (record for line in lines if (record := _parse(line)) is not None)
        self._found.sort()
        return self._found.copy()


def read(file: str | Path) -> list[Record]:
    """The records of a file that nobody waits for."""
    return Records(file).read()


def _parse(line: str) -> Record | None:
    words = line.split(" ")
    if len(words) != len(Record._fields) + 1 or words[-1] != LAST_FIELD:
        return None
    at, job, token, pid = words[:4]
    role = next((each for each in ROLES if each == words[4]), None)
    kind = next((each for each in KINDS if each == words[5]), None)
    if role is None or kind is None or not (at.isdecimal() and token.isdecimal()):
        return None
    return Record(int(at), job, int(token), int(pid), role, kind)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as it was recorded: from its begin to the last word of any of its processes."""

    job: str
    token: int
    first: int
    last: int
    last_role: Role
    begins: int
    pid: int

    def meets(self, other: "Attempt") -> bool:
        return self.first <= other.last and other.first <= self.last


def attempts(records: Iterable[Record]) -> dict[str, list[Attempt]]:
    """The attempts of each job, in the order in which they began."""
    by_token: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in sorted(records):
        by_token[record.job, record.token].append(record)
    found: defaultdict[str, list[Attempt]] = defaultdict(list)
    for (job, token), lines in by_token.items():
        begins = [line for line in lines if line.role == "job" and line.kind == "begin"]
        first, last = (begins or lines)[0], lines[-1]
        # What ran before its attempt began is as wrong as what runs after it ended.
        start = min(first.at, lines[0].at)
        found[job].append(Attempt(job, token, start, last.at, last.role, len(begins), first.pid))
    return {job: sorted(them, key=lambda each: each.first) for job, them in found.items()}


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two attempts of one job that ran at the same time."""

    earlier: Attempt
    later: Attempt

    def __str__(self) -> str:
        together = (min(self.earlier.last, self.later.last) - self.later.first) / 1e6
        return (
            f"job {self.later.job}: token {self.later.token} began while token "
            f"{self.earlier.token} went on ({self.earlier.last_role}), {together:.1f} ms together"
        )


def overlaps(records: Iterable[Record]) -> list[Overlap]:
    """Every pair of attempts of one job whose intervals meet."""
    return [
        Overlap(earlier, later)
        for them in attempts(records).values()
        for earlier, later in combinations(them, 2)
        if earlier.meets(later)
    ]


def doubles(records: Iterable[Record]) -> list[str]:
    """Attempts that began more than once under one token."""
    return [
        f"job {each.job} began {each.begins} times under token {each.token}"
        for them in attempts(records).values()
        for each in them
        if each.begins > 1
    ]


def start_daemon(recorder: Recorder, seconds: float, *, bare: bool) -> None:
    """Start a daemon that records for the attempt; returns when it has begun."""
    records = Records(recorder.file)
    had = _daemons(recorder, records)
    subprocess.run(recorder.command("bare-daemon" if bare else "daemon", seconds), check=True)
    give_up = time.monotonic() + 20
    while _daemons(recorder, records) == had:
        if time.monotonic() > give_up:
            raise TimeoutError("the daemon did not begin")
        time.sleep(EVERY_SECONDS)


def _daemons(recorder: Recorder, records: Records) -> int:
    return sum(
        record.kind == "begin" and record.role == "daemon" and record.token == recorder.token
        for record in records.read()
        if record.job == recorder.job
    )
