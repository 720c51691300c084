"""Operations as a person types them: many jobs at once, queues, keys, breakers, quarantine."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from acceptance.command import Run
from contract.driver import BOOM, Holder, add_many, get
from contract.families import KEEP, flow

from limpet.cli.main import main
from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Raised
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Quarantine
from limpet.storage.base import Store
from limpet.storage.registry import open_store

SECOND = 1_000_000
IDS = IdSource(SystemClock())


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Say = Callable[..., Said]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LIMPET_")]:
        monkeypatch.delenv(name)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def holder(store: Store) -> Holder:
    return Holder(store, ("task", "send", "add"))


@pytest.fixture
def limpet_here(url: str, store: Store, capsys: pytest.CaptureFixture[str]) -> Say:
    """The command line in this process, on the store."""

    def say(*words: str) -> Said:
        try:
            code = main([*words, "--url", url])
        except SystemExit as usage:
            code = int(str(usage.code))
        return Said(code, *capsys.readouterr())

    return say


def add(store: Store, task: str = "task", **fields: Any) -> str:
    """Enqueue one job, with an id as users have it."""
    job = NewJob(**{"id": IDS.new(), "task": task, "args": "{}", **fields})
    store.enqueue([job])
    return job.id


def failed(store: Store, holder: Holder, **fields: Any) -> str:
    job = add(store, **fields)
    holder.settle(Fail(holder.take(), BOOM))
    return job


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


# -- quarantine


def test_quarantined_jobs_are_listed_edited_and_released(
    store: Store, holder: Holder, limpet: Run
) -> None:
    def put_aside(args: str, task: str = "add") -> str:
        job = add(store, task, args=args)
        holder.settle(Quarantine(holder.take(), Raised("PayloadInvalid", "b is missing")))
        return job

    one, two, three = put_aside('{"a": 1}'), put_aside('{"a": 1, "b": 2}'), put_aside('{"a": "x"}')
    listed = limpet("quarantine", "list").stdout
    assert all(job in listed for job in (one, two, three))
    assert "PayloadInvalid: b is missing" in listed
    asked = limpet("quarantine", "release")
    assert (asked.returncode, "this would release 1 job" in asked.stderr) == (2, True)
    released = limpet("quarantine", "release", "--yes")
    assert released.returncode == 1
    assert released.stdout.startswith("1 job released, 2 refused\n")
    assert get(store, two).state is State.READY
    wrong = limpet("job", "repair", one)
    assert (wrong.returncode, "missing a required argument: 'b'" in wrong.stderr) == (2, True)
    assert (
        limpet("job", "repair", one, "--set", "b=5").stdout == f"{one} fits its task and is ready\n"
    )
    assert json.loads(get(store, one).args) == {"a": 1, "b": 5}
    assert limpet("job", "repair", three, '{"a": 1, "b": 2}').returncode == 0
    again = limpet("job", "repair", three)
    assert (again.returncode, "only a quarantined job" in again.stderr) == (1, True)
    for said in (("quarantine", "list"), ("quarantine",)):
        assert limpet(*said).stdout == "nothing is quarantined\n"


# -- queues, keys, breakers


def test_queue_is_paused_drained_and_resumed(store: Store, limpet_here: Say) -> None:
    add(store, queue="email")
    assert limpet_here("queues", "pause", "email").out == (
        "queue email is paused: nothing of it starts until it is resumed\n"
    )
    said = limpet_here("queues", "drain", "email")
    assert said.out == (
        "queue email takes in no new jobs; 1 wait and 0 run, but it is paused: resume it to let "
        "them go on\n"
    )
    assert "paused; draining" in limpet_here("queues").out
    assert limpet_here("queues", "resume", "email").out == (
        "queue email goes on and takes in jobs\n"
    )
    assert "draining" not in limpet_here("queues").out


def test_drain_waits_until_the_queue_is_empty(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    job = add(store, queue="email")
    said = limpet_here("queues", "drain", "email", "--wait", "--at-most", "0.3s")
    assert (said.code, "is not empty after 0.3s: 1 wait and 0 run" in said.out) == (1, True)
    assert "1 wait and 0 run" in said.err
    holder.settle(Complete(holder.take()))
    said = limpet_here("queues", "drain", "email", "--wait")
    assert (said.code, "is drained" in said.out) == (0, True)
    assert get(store, job).state is State.SUCCEEDED


def test_queue_is_limited_and_says_so(store: Store, holder: Holder, limpet_here: Say) -> None:
    add_many(store, 3)
    said = limpet_here("queues", "limit", "default", "--concurrency", "2", "--weight", "3")
    assert said.out == "queue default is limited to 2 at once, weight 3\n"
    said = limpet_here("queues", "limit", "default", "--rate", "100/m", "--bursty")
    assert said.out == "queue default is limited to 2 at once, 100/m bursty, weight 3\n"
    assert len(holder.claim()) == 2
    listed = limpet_here("queues").out
    assert "2 at once, 100/m bursty, weight 3" in listed
    assert "2 of 2 running" in listed
    record = limpet_here("queues", "--json").json[0]
    assert record["rules"] == {"concurrency": 2, "rate": "100/m bursty", "weight": 3}
    assert limpet_here("queues", "unlimit", "default", "--concurrency").out == (
        "queue default is limited to 100/m bursty, weight 3\n"
    )
    store.declare_queues({"default": QueueRules(7)})
    assert limpet_here("queues", "unlimit", "default").out == (
        "queue default is limited to 7 at once, as the app declares\n"
    )
    store.declare_queues({"default": QueueRules()})
    assert limpet_here("queues", "unlimit", "default").out == "queue default has no limits\n"
    assert "LIMITS" not in limpet_here("queues").out


def test_queue_says_what_its_blocked_jobs_wait_for(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    for _ in range(3):
        add(store, key="k", queue="keyed")
    add(store, "strange", queue="odd")
    holder.claim(1, {"odd": 1})
    holder.claim(1, {"keyed": 1})
    said = limpet_here("queues").out
    assert "2 wait for their key" in said
    assert "1 needs task strange" in said


def test_queue_is_held_for_a_time(store: Store, limpet_here: Say) -> None:
    add(store)
    said = limpet_here("queues", "hold", "default", "--for", "10m")
    assert said.out == "queue default is held: its jobs start again in 10m\n"
    assert "held, goes on in 10m" in limpet_here("queues").out
    assert "still held" in limpet_here("queues", "resume", "default").out
    assert limpet_here("queues", "hold", "default", "--for", "0s").out == (
        "queue default is not held any more\n"
    )


def test_queue_without_jobs_is_told_in_case_it_is_a_slip_of_the_pen(
    store: Store, limpet_here: Say
) -> None:
    assert limpet_here("queues", "pause", "emial").out.endswith("(it has had no jobs yet)\n")


def test_key_is_limited(store: Store, limpet_here: Say) -> None:
    jobs = [add(store, key="k") for _ in range(3)]
    said = limpet_here("keys", "limit", "k", "--concurrency", "2", "--rate", "50/s")
    assert said.out == "key k: 2 at once, 50/s\n"
    assert [get(store, job).state.value for job in jobs] == ["ready", "ready", "blocked"]
    assert limpet_here("keys", "unlimit", "k").out == "key k: as its jobs say themselves\n"


def test_breakers_are_listed_and_reset(store: Store, holder: Holder, limpet_here: Say) -> None:
    assert limpet_here("breakers").out == "no breakers\n"
    rules = BreakerRules("stripe", frozenset({"task"}), 0.5, 2, 60 * SECOND, 30 * SECOND)
    store.declare_breakers([rules])
    holder.exchange(observed=[Observed("stripe", 0, 2)])
    add(store)
    assert "stripe   open" in limpet_here("breakers").out
    assert limpet_here("breakers", "--json").json[0]["state"] == "open"
    assert "breaker stripe open, tries one in" in limpet_here("queues").out
    assert limpet_here("breakers", "reset", "stripe").out == "breaker stripe is closed\n"
    assert limpet_here("breakers", "--json").json[0]["state"] == "closed"
    missing = limpet_here("breakers", "reset", "strope")
    assert missing.code == 1
    assert "there is no breaker 'strope'; this store has: stripe" in missing.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("jobs", "--created-since", "soon"), 2, "--created-since is 'soon'; write how long ago"),
        (("jobs", "--created-since", "1h", "--created-until", "2h"), 2, "does not come before"),
        (("jobs", "--parent", "x"), 2, "is not the id of a job"),
        (("jobs", "retry", "--state", "lost"), 2, "invalid choice"),
        (("jobs", "move", "--queue", "a"), 2, "--to"),
        (("jobs", "move", "--queue", "a", "--to", "b c", "--yes"), 2, "a name has 1 to 100"),
        (("job", "why", "0" * 26), 1, "there is no job"),
        (("job", "why", "abc"), 2, "is not the id of a job"),
        (("job", "repair", "0" * 26), 2, "which app?"),
        (("queues", "pause", "a b"), 2, "a name has 1 to 100"),
        (("queues", "limit", "a"), 2, "say what to limit"),
        (("queues", "limit", "a", "--rate", "fast"), 2, "--rate is 'fast'"),
        (("queues", "limit", "a", "--concurrency", "0"), 2, "concurrency is 0"),
        (("queues", "limit", "a", "--weight", "5000"), 2, "weight is 5000"),
        (("queues", "hold", "a", "--for", "long"), 2, "the time to hold the queue is 'long'"),
        (("queues", "drain", "a", "--at-most", "x"), 2, "--at-most is 'x'"),
        (("keys", "limit", "k"), 2, "say what to limit"),
        (("keys", "limit", "", "--concurrency", "1"), 2, "key is ''"),
        (("quarantine", "list", "--state", "ready"), 2, "unrecognized arguments"),
        (("queues", "limit", "q", "--weight", "2", "--bursty"), 2, "--bursty says how a rate is"),
        (
            ("keys", "limit", "k", "--concurrency", "2", "--bursty"),
            2,
            "--bursty says how a rate is",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_an_exit_code(
    limpet_here: Say, words: tuple[str, ...], code: int, said: str
) -> None:
    given = limpet_here(*words)
    assert (given.code, said in given.err) == (code, True), given
    assert "Traceback" not in given.err


@pytest.mark.parametrize(
    "words",
    [
        ("jobs",), ("jobs", "retry"), ("jobs", "discard"), ("jobs", "move"), ("job", "repair"),
        ("job", "why"), ("queues",), ("queues", "drain"), ("queues", "limit"), ("keys", "limit"),
        ("breakers",), ("breakers", "reset"), ("quarantine", "release"),
    ],
)  # fmt: skip
def test_every_command_has_help_in_whole_sentences(
    limpet_here: Say, words: tuple[str, ...]
) -> None:
    said = limpet_here(*words, "--help")
    assert said.code == 0
    assert "show tracebacks" in said.out
