"""Jobs as a person sees them, and changes many at once."""

import os
import pty
import subprocess
import sys

import pytest
from acceptance.command import Run
from acceptance.operations import SECOND, Say, add, failed
from contract.driver import BOOM, Holder, add_many, get
from contract.families import KEEP, flow

from limpet.domain.clock import SystemClock
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.store import Store

# -- jobs


def test_jobs_are_listed_by_every_filter(store: Store, holder: Holder, limpet_here: Say) -> None:
    bad = failed(store, holder, queue="email")
    keyed = add(store, key="k", queue="other")

    def listed(*words: str) -> list[str]:
        said = limpet_here("jobs", *words, "--json")
        assert said.code == 0, said.err
        return [job["id"] for job in said.json["jobs"]]

    assert listed() == [keyed, bad]
    assert listed("--error", "boom") == [bad]
    assert listed("--error", "valueerror", "--queue", "other") == []
    assert listed("--key", "k") == [keyed]
    assert listed("--created-since", "1h") == [keyed, bad]
    assert listed("--created-until", "1h") == []
    assert listed("--finished-since", "2020-01-01") == [bad]
    assert listed("--finished-since", "2020-01-01T00:00+02:00", "--finished-until", "1h") == []
    assert listed("--state", "ready", "--task", "task") == [keyed]
    top, below = flow(store, 2)
    assert listed("--parent", top) == below


def test_many_are_retried_after_a_dry_run(store: Store, holder: Holder, limpet_here: Say) -> None:
    jobs = [failed(store, holder, queue="email") for _ in range(3)]
    other = failed(store, holder, queue="other")
    said = limpet_here("jobs", "retry", "--queue", "email", "--dry-run")
    assert (said.code, said.out) == (0, "3 jobs would be retried\n")
    assert get(store, jobs[0]).state is State.FAILED
    said = limpet_here("jobs", "retry", "--queue", "email", "--yes")
    assert (said.code, said.out) == (0, "3 jobs retried\n")
    assert {get(store, job).state for job in jobs} == {State.READY}
    assert get(store, other).state is State.FAILED
    assert limpet_here("jobs", "retry", "--queue", "email", "--yes").out == "no job matches\n"


def test_filters_before_the_action_count_too(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    """They must not be forgotten: what is discarded then is everything."""
    mine, other = add(store, queue="email"), add(store, queue="other")
    assert limpet_here("jobs", "--queue", "email", "discard", "--yes").out == "1 job discarded\n"
    assert get(store, mine).state is State.CANCELLED
    assert get(store, other).state is State.READY


def test_without_yes_and_without_a_person_nothing_is_done(
    store: Store, holder: Holder, limpet: Run, limpet_here: Say
) -> None:
    job = failed(store, holder)
    said = limpet("jobs", "retry", input="y\n")
    assert said.returncode == 2
    assert said.stderr == (
        "limpet: this would retry 1 job; pass --yes to do it, or --dry-run to look first.\n"
    )
    assert limpet_here("jobs", "retry", "--json").code == 2
    assert get(store, job).state is State.FAILED


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("no\n", 1)])
def test_person_is_asked(store: Store, holder: Holder, url: str, answer: str, code: int) -> None:
    job = failed(store, holder)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "limpet.cli.main", "jobs", "retry", "--url", url]
    with subprocess.Popen(
        command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
    ) as asked:
        os.close(theirs)
        assert os.read(ours, 100) == b"retry 1 job? [y/N] "
        os.write(ours, answer.encode())
        out, _ = asked.communicate(timeout=60)
    os.close(ours)
    assert asked.returncode == code
    assert out == ("1 job retried\n" if code == 0 else "nothing was done\n")
    assert get(store, job).state is (State.READY if code == 0 else State.FAILED)


def test_discard_says_what_it_cancelled_asked_and_skipped(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    add(store)
    lease = holder.take()
    add_many(store, 2)
    failed(store, holder, priority=5)
    said = limpet_here("jobs", "discard", "--queue", "default", "--reason", "old", "--yes")
    assert said.out == (
        "2 jobs discarded, 1 running job asked to stop, 1 skipped (already failed)\n"
    )
    record = limpet_here("jobs", "discard", "--all", "--yes", "--json").json
    assert (record["matched"], record["skipped"]["already asked to stop"]) == (2, 1)
    holder.settle(Complete(lease))


def test_discard_and_move_of_everything_must_be_said(store: Store, limpet_here: Say) -> None:
    job = add(store)
    for words in (("discard",), ("move", "--to", "new")):
        said = limpet_here("jobs", *words, "--yes")
        assert (said.code, "--all means every job" in said.err) == (2, True)
    assert limpet_here("jobs", "move", "--to", "new", "--all", "--yes").out == (
        "1 job moved to new\n"
    )
    assert get(store, job).queue == "new"


def test_refused_jobs_are_told_with_exit_code_one(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    job = failed(store, holder, unique="u")
    add(store, unique="u")
    said = limpet_here("jobs", "retry", "--yes")
    assert said.code == 1
    assert said.out.startswith(f"0 jobs retried, 1 refused\n  {job}  ")


# -- one job


def test_job_says_why_it_does_not_run(store: Store, limpet_here: Say) -> None:
    job = add(store, queue="email")
    assert limpet_here("job", "why", job).out == (
        "no worker is live; start one with limpet worker\n"
    )
    limpet_here("queues", "pause", "email")
    said = limpet_here("job", "why", job, "--json").json
    assert (said["id"], said["kind"]) == (job, "paused")
    shown = limpet_here("job", "show", job).out
    assert "\nwhy:                queue email is paused; `limpet queues resume email`" in shown
    assert limpet_here("job", "show", job, "--json").json["why"]["kind"] == "paused"


def test_job_shows_what_shapes_it(store: Store, holder: Holder, limpet_here: Say) -> None:
    job = add(store, key="customer:42", unique="u")
    shown = limpet_here("job", "show", job).out
    assert "key:                customer:42\n" in shown
    assert "unique:             u\n" in shown
    assert "pending" not in shown


def test_flow_shows_its_children(store: Store, holder: Holder, limpet_here: Say) -> None:
    top, below = flow(store, 3, KEEP)
    holder.settle(Fail(holder.take(), BOOM))
    shown = limpet_here("job", "show", top).out
    assert f"why:                waits for 2 of 3 children; failed: {below[0]}\n" in shown
    assert "children:           2 ready, 1 failed\n" in shown
    assert f"  {below[0]}  task failed: ValueError: boom\n" in shown


def test_cancel_of_a_failed_job_says_that_it_is_not_relaunched(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    job = add(store)
    holder.settle(Fail(holder.take(), BOOM, SystemClock().wall() + 3600 * SECOND))
    assert "relaunched in" in limpet_here("jobs").out
    said = limpet_here("job", "cancel", job)
    assert (said.code, said.out) == (0, f"{job} has failed and will not be relaunched\n")
    assert limpet_here("job", "cancel", job).code == 1
