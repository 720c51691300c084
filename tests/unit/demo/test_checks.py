"""The judge of the demo finds every broken promise that is planted in its evidence."""

from dataclasses import replace

import pytest

from limpet.demo.checks import Evidence, Fate, JobFacts, Recovery, Verdict, judge, overlaps
from limpet.demo.diary import Trace
from limpet.domain.state import State

SECOND = 1_000_000


def trace(token: int, begin: float, last: float, who: str = "job", job: str = "a") -> Trace:
    ended = who == "job"
    return Trace(job, token, who, 100, round(begin * SECOND), round(last * SECOND), ended, 9)


# A job that was cut off once and then succeeded, one that failed as planned, a quick one.
CUT_OFF = JobFacts(
    id="a", name="convert", state=State.SUCCEEDED, final_events=1, token=2, kept_token=2,
    failures=0, orphans=1, strikes=0, finished_at=9 * SECOND, fate=Fate(orphans=1),
)  # fmt: skip
FAILED = JobFacts(
    id="b", name="refund", state=State.FAILED, final_events=1, token=1, kept_token=None,
    failures=1, orphans=0, strikes=0, finished_at=2 * SECOND, fate=Fate(State.FAILED, 1),
)  # fmt: skip
QUICK = replace(CUT_OFF, id="c", name="a quick job", token=1, kept_token=1, orphans=0, fate=None)
TRACES = [
    trace(1, 1.0, 3.0),
    trace(1, 1.1, 3.01, "program"),
    trace(1, 1.2, 3.02, "daemon"),
    trace(2, 3.2, 8.0),
    trace(2, 3.3, 8.0, "program"),
    trace(2, 3.4, 8.1, "daemon"),
    trace(1, 1.0, 1.5, job="b"),
]
PROCESS = Recovery("process", 0.1, 1, (0.02,), (0.05,))
WORKER = Recovery("worker", 1.0, 2, (0.2, 0.3), (0.4, 0.5))
GOOD = Evidence(
    jobs=[CUT_OFF, FAILED, QUICK],
    traces=TRACES,
    recoveries=[PROCESS, WORKER],
    processes=12,
    late_words=3,
    refused=3,
)


def broken(evidence: Evidence) -> dict[str, str]:
    return {
        check.promise: check.figure for check in judge(evidence) if check.verdict is Verdict.BROKEN
    }


def with_job(**changes: object) -> Evidence:
    return replace(GOOD, jobs=[replace(CUT_OFF, **changes), FAILED, QUICK])  # type: ignore[arg-type]


def test_good_evidence_is_accepted_with_its_figures() -> None:
    checks = {check.promise: check for check in judge(GOOD)}
    assert {check.verdict for check in checks.values()} == {Verdict.KEPT}
    assert "3 jobs ended, each exactly once; 1 failed" in checks["nothing lost"].figure
    assert "smallest gap 0.180 s" in checks["never twice at once"].figure
    assert "2 jobs ready in 0.30 s (promise 1 s), running in 0.50 s" in (
        checks["worker killed"].figure
    )
    assert "1 failure, 1 orphan, 0 strikes" in checks["charged right"].figure


@pytest.mark.parametrize(
    ("evidence", "promise", "said"),
    [
        (with_job(state=State.RUNNING), "nothing lost", "convert is not finished"),
        (with_job(final_events=2), "nothing lost", "convert ended 2 times"),
        (with_job(state=State.FAILED, kept_token=None), "nothing lost", "was not planned"),
        (with_job(kept_token=1), "nothing lost", "the result of run 1, not 2"),
        (
            replace(GOOD, jobs=[CUT_OFF, replace(FAILED, state=State.SUCCEEDED), QUICK]),
            "nothing lost",
            "refund succeeded, which was not planned",
        ),
        (with_job(orphans=0), "charged right", "0 orphans, 0 strikes, not 0 failures, 1 orphan"),
        (with_job(orphans=2), "charged right", "2 orphans"),
        (with_job(strikes=1), "charged right", "1 strike"),
        (with_job(failures=1), "charged right", "1 failure"),
        (
            replace(GOOD, jobs=[CUT_OFF, FAILED, replace(QUICK, strikes=1)]),
            "charged right",
            "without a reason",
        ),
        (
            replace(GOOD, traces=[*TRACES, trace(3, 8.2, 8.3)]),
            "charged right",
            "was run 3 times, and 2 are accounted for",
        ),
        (replace(GOOD, left_behind=["pid 7 (python)"]), "nothing left behind", "pid 7"),
        (
            replace(GOOD, traces=[*TRACES[:5], trace(2, 3.4, 9.5, "daemon"), TRACES[6]]),
            "nothing left behind",
            "the daemon of convert lived 0.500 s after its end",
        ),
        (
            replace(GOOD, traces=[TRACES[0], TRACES[3], TRACES[6]]),
            "nothing left behind",
            "nothing was shown",
        ),
        (
            replace(GOOD, recoveries=[PROCESS, replace(WORKER, ready=(0.2, 10.2))]),
            "worker killed",
            "ready in 10.20 s (promise 1 s)",
        ),
        (
            replace(GOOD, recoveries=[PROCESS, replace(WORKER, running=(0.4,))]),
            "worker killed",
            "1 of 2 jobs",
        ),
        (
            replace(GOOD, recoveries=[replace(PROCESS, jobs=0, ready=(), running=()), WORKER]),
            "process killed",
            "0 of 0 jobs",
        ),
        (replace(GOOD, refused=2), "late words refused", "1 of 3 late words were accepted"),
        (replace(GOOD, late_words=0, refused=0), "late words refused", "nothing was shown"),
        (replace(GOOD, broken=["holdings"]), "sound store", "holdings"),
        (replace(GOOD, stuck="waited in vain"), "to the end", "waited in vain"),
    ],
)
def test_a_broken_promise_is_found_and_named(evidence: Evidence, promise: str, said: str) -> None:
    assert said in broken(evidence)[promise]


@pytest.mark.parametrize(
    ("traces", "who"),
    [
        ([trace(1, 1, 3), trace(2, 2.9, 5)], "job"),
        ([trace(1, 1, 3), trace(2, 3, 5)], "job"),
        ([trace(1, 1, 3), trace(1, 1, 3.6, "daemon"), trace(2, 3.5, 5)], "daemon"),
        ([trace(1, 1, 3), trace(2, 3.5, 5), trace(2, 3.4, 5, "program"), trace(3, 4.9, 6)], "job"),
        (
            [trace(1, 1, 9, "daemon"), trace(2, 9.5, 9.6), trace(1, 1, 9.7), trace(3, 9.65, 10)],
            "job",
        ),
        ([trace(2, 1, 3), trace(1, 2, 5)], "job"),
    ],
)
def test_an_overlap_is_found_whoever_outlived_the_run(traces: list[Trace], who: str) -> None:
    found, _ = overlaps(traces)
    assert found
    assert found[0][0].who == who
    evidence = replace(GOOD, traces=[*traces, *[replace(t, job="z") for t in TRACES[:6]]])
    assert "never twice at once" in broken(evidence)


def test_runs_of_different_jobs_may_overlap() -> None:
    assert overlaps([trace(1, 1, 3), trace(1, 1, 3, job="b")]) == ([], None)


def test_a_show_in_which_no_job_ran_twice_proves_nothing() -> None:
    found = broken(replace(GOOD, traces=TRACES[3:]))
    assert "nothing was shown" in found["never twice at once"]


def test_a_recovery_on_a_busy_machine_is_told_as_late_and_not_as_broken() -> None:
    late = replace(GOOD, recoveries=[replace(PROCESS, ready=(0.9,), running=(1.0,)), WORKER])
    verdicts = {check.promise: check.verdict for check in judge(late)}
    assert verdicts["process killed"] is Verdict.LATE


def test_a_show_that_did_not_begin_says_only_that() -> None:
    (check,) = judge(Evidence([], [], [], stuck="worker ann ended at once"))
    assert (check.promise, check.verdict) == ("to the end", Verdict.BROKEN)
