"""The judge of the demo: reads the evidence, and decides for each promise whether it was kept.

It does no I/O, so that a test can give it evidence of a broken promise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from limpet.demo.diary import Trace
from limpet.domain.state import FINAL, State

# How much longer than promised a recovery may take on a machine that is busy with other things.
# Within this time the promise counts as late, after it as broken.
ALLOWANCE_SECONDS = 2.0


class Verdict(StrEnum):
    """The verdict on a promise; late: kept, but slower than on an idle machine."""

    KEPT = "kept"
    LATE = "late"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, the verdict on it, and the figure that proves the verdict."""

    promise: str
    verdict: Verdict
    figure: str


@dataclass(frozen=True, slots=True)
class Fate:
    """How a job should end, by the script and by the kills that hit it."""

    state: State = State.SUCCEEDED
    failures: int = 0
    orphans: int = 0
    strikes: int = 0


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job at the end of the demo, beside the fate that was expected.

    `final_events`: how many final events its timeline has. `kept_token`: the token whose result the
    store kept. `fate`: None for a job so quick that nobody knows whether the kill hit it.
    `finished_at`: BOOTTIME in microseconds.
    """

    id: str
    name: str
    state: State
    final_events: int
    token: int
    kept_token: int | None
    failures: int
    orphans: int
    strikes: int
    finished_at: int | None
    fate: Fate | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The jobs that one kill hit; seconds from the kill until each was ready and ran again."""

    killed: str
    promised_seconds: float
    jobs: int
    ready: tuple[float, ...]
    running: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the judge reads.

    `left_behind`: processes that were alive when they should not have been, as text. `processes`:
    how many processes were looked for. `late_words`: how many writes were tried in the name of the
    dead worker; `refused`: how many of them the store refused. `broken`: invariants of the store
    that do not hold. `stuck`: what the demo waited for in vain.
    """

    jobs: Sequence[JobFacts]
    traces: Sequence[Trace]
    recoveries: Sequence[Recovery]
    left_behind: Sequence[str] = ()
    processes: int = 0
    late_words: int = 0
    refused: int = 0
    broken: Sequence[str] = field(default_factory=tuple)
    stuck: str | None = None


def judge(evidence: Evidence) -> list[Check]:
    """Every promise, in the order in which they are printed."""
    stuck = [] if evidence.stuck is None else [Check("to the end", Verdict.BROKEN, evidence.stuck)]
    if stuck and not evidence.jobs:
        return stuck  # the demo did not even begin
    return [
        *stuck,
        _nothing_lost(evidence.jobs),
        _never_twice_at_once(evidence.jobs, evidence.traces),
        *(_quick(recovery) for recovery in evidence.recoveries),
        _nothing_left(evidence),
        _charged_right(evidence.jobs, evidence.traces),
        _late_words_refused(evidence),
        _check(
            "sound store",
            "every invariant holds",
            [f"broken: {invariant}" for invariant in evidence.broken],
        ),
    ]


def _check(promise: str, figure: str, troubles: Sequence[str]) -> Check:
    if troubles:
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return Check(promise, Verdict.BROKEN, troubles[0] + more)
    return Check(promise, Verdict.KEPT, figure)


def _nothing_lost(jobs: Sequence[JobFacts]) -> Check:
    troubles = []
    for job in jobs:
        if job.state not in FINAL:
            troubles.append(f"{job.name} is not finished, it is {job.state}")
        elif job.final_events != 1:
            troubles.append(f"{job.name} ended {job.final_events} times")
        elif job.state is not (job.fate or Fate()).state:
            troubles.append(f"{job.name} {job.state}, which was not planned")
        elif job.state is State.SUCCEEDED and job.kept_token != job.token:
            troubles.append(f"{job.name} has the result of run {job.kept_token}, not {job.token}")
    if not jobs:
        troubles.append("there were no jobs")
    failed = sum(job.state is State.FAILED for job in jobs)
    planned = f"; {failed} failed, as planned" if failed else ""
    figure = f"{len(jobs)} jobs ended, each exactly once{planned}"
    return _check("nothing lost", figure, troubles)


def overlaps(traces: Iterable[Trace]) -> tuple[list[tuple[Trace, Trace]], int | None]:
    """Pairs of runs of one job where the later run began before the last mark of the earlier.

    A run is alive from the first to the last mark of the job and of every program it started. Also
    returns the shortest gap between two runs, in microseconds; None if no job ran twice.
    """
    runs: dict[str, dict[int, list[Trace]]] = {}
    for trace in traces:
        runs.setdefault(trace.job, {}).setdefault(trace.token, []).append(trace)
    found = []
    gaps = []
    for by_token in runs.values():
        lives = [by_token[token] for token in sorted(by_token)]
        for at, (earlier, later) in enumerate(pairwise(lives)):
            # Against all the runs before, because a daemon may outlive more than one.
            last = max((trace for run in lives[: at + 1] for trace in run), key=lambda t: t.last)
            first = min(later, key=lambda trace: trace.begin)
            gaps.append(first.begin - max(trace.last for trace in earlier))
            if first.begin <= last.last:
                found.append((last, first))
    return found, min(gaps, default=None)


def _never_twice_at_once(jobs: Sequence[JobFacts], traces: Sequence[Trace]) -> Check:
    names = {job.id: job.name for job in jobs}
    found, gap = overlaps(traces)
    troubles = [
        f"run {late.token} of {names.get(late.job, late.job)} began "
        f"{(early.last - late.begin) / 1e6:.3f} s before the {early.who} of run {early.token} ended"
        for early, late in found
    ]
    if gap is None:
        troubles.append("no job ran twice, so nothing was shown")
    runs = len({(trace.job, trace.token) for trace in traces})
    marks = sum(trace.marks for trace in traces)
    figure = f"{runs} runs, {marks:,} signs of life; smallest gap {(gap or 0) / 1e6:.3f} s"
    return _check("never twice at once", figure, troubles)


def _quick(recovery: Recovery) -> Check:
    promise = f"{recovery.killed} killed"
    if recovery.jobs == 0 or not len(recovery.ready) == len(recovery.running) == recovery.jobs:
        back = len(recovery.running)
        return Check(promise, Verdict.BROKEN, f"{back} of {recovery.jobs} jobs were run again")
    ready, running = max(recovery.ready), max(recovery.running)
    many = "1 job" if recovery.jobs == 1 else f"{recovery.jobs} jobs"
    figure = (
        f"{many} ready in {ready:.2f} s (promise {recovery.promised_seconds:g} s), "
        f"running in {running:.2f} s"
    )
    if ready <= recovery.promised_seconds:
        return Check(promise, Verdict.KEPT, figure)
    if ready <= recovery.promised_seconds + ALLOWANCE_SECONDS:
        return Check(promise, Verdict.LATE, f"{figure}; is the machine busy?")
    return Check(promise, Verdict.BROKEN, figure)


def _nothing_left(evidence: Evidence) -> Check:
    troubles = [f"still alive: {process}" for process in evidence.left_behind]
    jobs = {job.id: job for job in evidence.jobs}
    programs = [trace for trace in evidence.traces if trace.who != "job"]
    for trace in programs:
        job = jobs.get(trace.job)
        if job and trace.token == job.token and trace.last > (job.finished_at or trace.last):
            seconds = (trace.last - (job.finished_at or 0)) / 1e6
            troubles.append(f"the {trace.who} of {job.name} lived {seconds:.3f} s after its end")
    if not programs:
        troubles.append("no job started a program, so nothing was shown")
    figure = f"{evidence.processes} processes, {len(programs)} programs and daemons: none is alive"
    return _check("nothing left behind", figure, troubles)


def _charged_right(jobs: Sequence[JobFacts], traces: Sequence[Trace]) -> Check:
    troubles = []
    begun: dict[str, set[int]] = {}
    for trace in traces:
        if trace.who == "job":
            begun.setdefault(trace.job, set()).add(trace.token)
    for job in jobs:
        counted = (job.failures, job.orphans, job.strikes)
        if job.fate is not None:
            expected = (job.fate.failures, job.fate.orphans, job.fate.strikes)
            runs = job.failures + job.orphans + (job.state is State.SUCCEEDED)
            # A job whose process was killed has a strike only if it ran alone in its worker.
            if counted[:2] != expected[:2] or job.strikes > job.fate.strikes:
                troubles.append(f"{job.name} has {_charges(*counted)}, not {_charges(*expected)}")
            elif runs != len(begun.get(job.id, ())):
                seen = len(begun.get(job.id, ()))
                troubles.append(f"{job.name} was run {seen} times, and {runs} are accounted for")
        elif job.failures or job.strikes or job.orphans > 1:
            troubles.append(f"{job.name} has {_charges(*counted)}, without a reason")
    totals = [
        sum(getattr(job, name) for job in jobs) for name in ("failures", "orphans", "strikes")
    ]
    return _check("charged right", f"{_charges(*totals)}: as caused, no more", troubles)


def _charges(failures: int, orphans: int, strikes: int) -> str:
    return ", ".join(
        f"{count} {name}{'' if count == 1 else 's'}"
        for count, name in ((failures, "failure"), (orphans, "orphan"), (strikes, "strike"))
    )


def _late_words_refused(evidence: Evidence) -> Check:
    accepted = evidence.late_words - evidence.refused
    troubles = [f"{accepted} of {evidence.late_words} late words were accepted"] if accepted else []
    if not evidence.late_words:
        troubles.append("nothing was written in the dead worker's name, so nothing was shown")
    figure = f"{evidence.refused} of {evidence.late_words} in the name of the dead worker"
    return _check("late words refused", figure, troubles)
