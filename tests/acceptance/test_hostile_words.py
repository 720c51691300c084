"""No text of a job moves a cursor, turns a line around, or begins a line of its own."""

import json
import re
import sys
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from acceptance.operations import SECOND, Say
from contract.driver import Holder
from permits.measured import GIB, Measured

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Raised, Requested
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import LogLine, NewJob, Progress, Report
from limpet.domain.permit import Room
from limpet.domain.schedule import Schedule, Timing
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete, Fail, Quarantine, RetryAt
from limpet.domain.weight import Weight
from limpet.storage.contract.store import Store

# All that a terminal, or a reader of lines, takes for something else than a letter.
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)]
CONTROLS += [chr(code) for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
# What would be bold, a link or a smiling face if it were taken for markup, or an error.
MARKUP = "[bold][link=https://x.y]:smile:[/][/red]"
FORGED = "FORGED 12:00:00.000 ● stopped"
_ids = IdSource(SystemClock())


def hostile(of: str = "x") -> str:
    """A text with each of them; the line breaks are followed by what looks like a line."""
    forged = f"\n{FORGED}\r{FORGED}\u2028{FORGED}"
    return f"{of}{MARKUP}{''.join(CONTROLS)}\x1b[2J\x1b]0;title\x07{forged} 文件"


def assert_tame(text: str) -> None:
    """Lines of letters, and nothing else; none of them begins as a text of a job does."""
    left = sorted({letter for letter in text if letter in set(CONTROLS) - {"\n"}})
    assert left == [], f"{left!r} in {text[:2_000]!r}"
    forged = [line for line in text.split("\n") if line.lstrip().startswith(FORGED[:6])]
    assert forged == []


@pytest.fixture(autouse=True)
def wide_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def hostile_store(store: Store) -> Store:
    """A store in which every text that others than Limpet have written is hostile."""
    task, queue = hostile("task"), hostile("queue")
    holder = Holder(store, (task,))
    worker = NewSession(
        _ids.new(), SessionKind.WORKER, hostile("name"), hostile("host"), 7,
        timedelta(hours=1), frozenset({task}), (frozenset({task}),),
    )  # fmt: skip
    store.register(worker)
    numbers = count()

    def job(**fields: Any) -> str:
        args = json.dumps({hostile("name"): hostile("value")})
        made = NewJob(
            _ids.new(), task, args, queue, **{"key": f"{next(numbers)}{hostile('k')}", **fields}
        )
        store.enqueue([made])
        return made.id

    broken = Raised(hostile("Type"), hostile("message"), f"Traceback\n  {hostile('trace')}")
    job(unique=hostile("unique"))
    job()
    for settle in (
        lambda lease: Fail(lease, broken),
        lambda lease: Quarantine(lease, broken),
        lambda lease: RetryAt(lease, SystemClock().wall() + 3600 * SECOND, broken),
        lambda lease: Complete(lease, json.dumps(hostile("result"))),
    ):
        holder.settle(settle(holder.take_of(queue)))
        job()
    lease = holder.take_of(queue)
    now = SystemClock().wall()
    lines = (LogLine(now, "info", hostile("line")), LogLine(now, "error", f"Traceback\n  {FORGED}"))
    store.report(holder.id, [Report(lease, Progress(1, 2, hostile("note"), now), lines)])
    store.cancel(lease.job, hostile("reason"))
    blocked = NewJob(_ids.new(), hostile("unknown"), "{}", hostile("other"), key=hostile("same"))
    store.enqueue([blocked, blocked._replace(id=_ids.new())])
    dead = Holder(store, (task,), session=_ids.new())
    store.end(dead.id, Requested(hostile("cause")))
    store.declare_breakers(
        [BreakerRules(hostile("breaker"), frozenset({task}), 0.5, 2, SECOND, 90 * SECOND)]
    )
    holder.exchange(observed=[Observed(hostile("breaker"), 0, 2)])
    timing = Timing(every=3600 * SECOND)
    store.put_schedule(
        Schedule(
            id=hostile("schedule"), job=NewJob("", task, "{}", queue), timing=timing, next_at=now
        )
    )
    permit = NewSession(
        _ids.new(), SessionKind.PERMIT, hostile("caller"), "h", 1, timedelta(hours=1)
    )
    store.register(permit)
    assert store.take_permit(permit.id, Weight(cpu=1.0), Room(hostile("server"), 64_000, 64 * GIB))
    return store


def jobs_of(store: Store) -> list[str]:
    from limpet.domain.job import JobFilter

    return [job.id for job in store.jobs(JobFilter()).jobs]


def screens(store: Store) -> list[tuple[str, ...]]:
    """Every command that shows a text of a job, or of what others have named."""
    jobs = jobs_of(store)
    server, queue, schedule = hostile("server"), hostile("queue"), hostile("schedule")
    return [
        ("jobs",), ("quarantine",), ("queues",), ("top",), ("workers",), ("workers", "--all"),
        ("hosts",), ("hosts", server), ("gate", "status", "--server-id", server),
        ("breakers",), ("breakers", "reset", hostile("breaker")), ("breakers", "reset", hostile()),
        ("schedules",), ("schedules", "show", schedule), ("schedules", "pause", schedule),
        ("schedules", "trigger", schedule), ("schedules", "resume", schedule),
        ("schedules", "show", hostile()), ("schedules", "remove", schedule),
        ("keys", "limit", hostile("k"), "--concurrency", "2"), ("keys", "unlimit", hostile("k")),
        ("queues", "pause", queue), ("queues", "resume", queue), ("queues", "limit", queue),
        ("jobs", "retry", "--dry-run"), ("jobs", "--queue", queue), ("job", "show", hostile()),
        ("fsck",), ("migrate",),
        *(("job", what, job) for job in jobs for what in ("show", "why")),
        ("job", "cancel", jobs[-1], "--reason", hostile("reason")), ("job", "show", jobs[-1]),
    ]  # fmt: skip


def test_no_screen_shows_a_control_character_of_a_text(
    hostile_store: Store, limpet_here: Say
) -> None:
    with Measured(hostile_store, hostile("server")):
        for words in screens(hostile_store):
            said = limpet_here(*words)
            for text in (said.out, said.err):
                assert_tame(text)
            # None was taken for markup, nor cut.
            assert said.out.count("[bold]") == said.out.count(MARKUP), said.out
            assert "Traceback (most recent call last)" not in said.err


def test_no_screen_of_a_terminal_has_other_escapes_than_colours(
    hostile_store: Store, limpet_here: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = 0
    with Measured(hostile_store, hostile("server")):
        for words in screens(hostile_store):
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
            said = limpet_here(*words, *(["--once"] if words == ("top",) else []))
            plain = re.sub(r"\x1b\[[0-9;]*m", "", said.out)
            coloured += plain != said.out
            assert_tame(plain)
            assert plain.count("[bold]") == plain.count(MARKUP), plain
    assert coloured > 10


def test_json_of_every_screen_escapes_what_a_terminal_would_obey(
    hostile_store: Store, limpet_here: Say
) -> None:
    with Measured(hostile_store, hostile("server")):
        for words in screens(hostile_store):
            said = limpet_here(*words, "--json")
            for text in (said.out, said.err):
                assert_tame(text)
            if said.out:
                json.loads(said.out)
        shown = [limpet_here("job", "show", job, "--json") for job in jobs_of(hostile_store)]
        whole = next(said for said in shown if said.json["queue"] == hostile("queue"))
        assert "文件" in whole.out


def test_a_traceback_is_shown_line_by_line_each_behind_a_mark(
    store: Store, limpet_here: Say
) -> None:
    holder = Holder(store, ("task",))
    store.enqueue([NewJob(_ids.new(), "task", "{}")])
    lease = holder.take()
    now = SystemClock().wall()
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n\x1b[2JValueError: no'
    store.report(holder.id, [Report(lease, None, (LogLine(now, "error", f"it broke\n{trace}"),))])
    holder.settle(Fail(lease, Raised("ValueError", f"two\n{FORGED}", trace)))
    shown = limpet_here("job", "show", lease.job).out
    assert_tame(shown)
    lines = shown.splitlines()
    marked = [line for line in lines if re.match(r"\s+\| ", line)]
    assert [line for line in marked if 'File "a.py", line 1, in f' in line]
    assert [line for line in marked if r"\x1b[2JValueError: no" in line]
    assert [line for line in marked if FORGED in line]
    assert [line for line in lines if re.match(r"\s+\S+Z?\S*\s+error: it broke$", line)]
