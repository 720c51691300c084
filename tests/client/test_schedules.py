"""What users write of schedules: declared, put at run time, refused with a sentence."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import App, InvalidOption, MoveRefused, PayloadInvalid, ScanReport, ScheduleNotFound
from limpet.app.task import Task
from limpet.domain.job import JobFilter
from limpet.domain.schedule import CatchUp, Timing
from limpet.domain.state import State
from limpet.testing.clock import FakeClock

MINUTE = 60_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(url: str, clock: FakeClock) -> Any:
    made = App(url, clock=clock)
    made.client.store.migrate()
    yield made
    assert made.client.store.invariants() == ()
    made.close()


@pytest.fixture
def report(app: App) -> Task[Any, Any]:
    @app.task(queue="night", timeout="5m")
    def report(of: str, pages: int = 1) -> None: ...

    return report


def jobs(app: App) -> list[Any]:
    return list(app.client.store.jobs(JobFilter()).jobs)


# -- declared


def test_a_schedule_is_declared_above_a_task(app: App) -> None:
    @app.every("15m", jitter="10s", catch_up="none", overlap=False, args={"of": "day"})
    @app.task(queue="night")
    def report(of: str) -> None: ...

    (found,) = app.registry.declared_schedules()
    assert found.id == "report"
    assert (found.job.task, found.job.queue, found.job.args) == ("report", "night", '{"of":"day"}')
    assert found.timing == Timing(every=15 * MINUTE, jitter=10_000_000)
    assert (found.catch_up, found.overlap) == (CatchUp.NONE, False)
    assert report.enqueue(of="now").state is State.READY


def test_a_schedule_above_a_plain_function_makes_it_a_task(app: App) -> None:
    @app.cron("0 3 * * *", tz="Europe/Berlin")
    def report() -> None: ...

    assert app.tasks["report"] is report
    (found,) = app.registry.declared_schedules()
    assert found.timing == Timing(cron="0 3 * * *", tz="Europe/Berlin")


def test_one_task_may_have_several_schedules(app: App) -> None:
    @app.cron("0 3 * * *", id="nightly", args={"of": "day"})
    @app.every("1h", args={"of": "hour"})
    @app.task
    def report(of: str) -> None: ...

    assert [each.id for each in app.registry.declared_schedules()] == ["nightly", "report"]


def test_a_schedule_below_a_task_is_refused(app: App) -> None:
    with pytest.raises(InvalidOption, match="above @app.task"):

        @app.task(queue="night")
        @app.every("15m")
        def report() -> None: ...


def test_two_schedules_of_one_id_are_refused(app: App) -> None:
    with pytest.raises(InvalidOption, match="already a schedule 'report'"):

        @app.every("15m")
        @app.every("30m")
        def report() -> None: ...


def test_a_task_of_another_app_is_refused(app: App, tmp_path: Path) -> None:
    other = App(f"sqlite:///{tmp_path}/other.db")

    @other.task
    def theirs() -> None: ...

    with pytest.raises(InvalidOption, match="another app"):
        app.every("15m")(theirs)
    other.close()


def test_declared_arguments_that_do_not_fit_are_refused(app: App) -> None:
    @app.every("15m")
    def report(of: str) -> None: ...

    with pytest.raises(PayloadInvalid, match="of"):
        app.registry.declared_schedules()


def test_what_becomes_of_vanished_ones_is_a_choice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    assert App(url).vanished_schedules == "remove"
    assert App(url, vanished_schedules="keep").vanished_schedules == "keep"
    with pytest.raises(InvalidOption, match='"remove" or "keep"'):
        App(url, vanished_schedules="forget")  # type: ignore[arg-type]


# -- at run time


def test_a_schedule_is_put_at_run_time(app: App, report: Task[Any, Any], clock: FakeClock) -> None:
    found = app.schedules.upsert("s", report.call(of="day"), every="15m")
    assert (found.id, found.job.args, found.declared) == ("s", '{"of":"day"}', "")
    assert found.next_at == clock.wall() + 15 * MINUTE
    again = app.schedules.upsert("s", report, args={"of": "day"}, every="15m")
    assert again == found
    assert app.schedules.list() == [found] == [app.schedules.get("s")]


def test_what_a_task_is_given_goes_with_each_tick(app: App, report: Task[Any, Any]) -> None:
    timed = report.using(priority=5, delay="1m", expires="10m", deadline="1h", key="k")
    job = app.schedules.upsert("s", timed.call(of="day"), every="15m").job
    assert (job.id, job.priority, job.queue, job.key) == ("", 5, "night", "k")
    assert (job.scheduled_for, job.expires_at, job.deadline_at) == (
        MINUTE, 10 * MINUTE, 60 * MINUTE,
    )  # fmt: skip
    assert '"timeout":300' in job.options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"every": "15m", "catch_up": "some"}, '"none", "one" or "all"'),
        ({"every": "15m", "catch_up": "all", "overlap": False}, "overlap=False forbids"),
        ({"every": "15m", "overlap": "no"}, "write True or False"),
        ({"every": "10ms"}, "once a second"),
        ({"cron": "0 0 31 2 *"}, "no such day"),
        ({"cron": "0 3 * * *", "tz": "Mars/Olympus"}, "no time zone"),
        ({}, "either every= or cron="),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    app: App, report: Task[Any, Any], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        app.schedules.upsert("s", report.call(of="day"), **options)
    assert app.schedules.list() == []


def test_what_is_no_call_is_refused(app: App, report: Task[Any, Any]) -> None:
    with pytest.raises(InvalidOption, match="is not a task"):
        app.schedules.upsert("s", "report", every="15m")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="has its arguments"):
        app.schedules.upsert("s", report.call(of="day"), args={"of": "x"}, every="15m")
    moment = datetime.now(UTC) + timedelta(days=5000)
    with pytest.raises(InvalidOption, match="again and again"):
        app.schedules.upsert("s", report.using(deadline=moment).call(of="x"), every="15m")
    with pytest.raises(PayloadInvalid):
        app.schedules.upsert("s", report, every="15m")


def test_ids_of_others_are_refused(app: App, report: Task[Any, Any]) -> None:
    app.every("15m", id="mine", args={"of": "day"})(report)
    for id_, sentence in (
        ("mine", "declared in the code"),
        ("limpet:fsck", "Limpet's own"),
        ("a/b", "a name has"),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            app.schedules.upsert(id_, report.call(of="x"), every="15m")


def test_a_trigger_is_one_job_and_moves_nothing(
    app: App, report: Task[Any, Any], clock: FakeClock
) -> None:
    before = app.schedules.upsert("s", report.call(of="day"), every="15m", overlap=False)
    job = app.schedules.trigger("s")
    assert [each.id for each in jobs(app)] == [job]
    assert app.schedules.get("s").next_at == before.next_at
    with pytest.raises(MoveRefused, match="does not overlap"):
        app.schedules.trigger("s")


def test_resumed_a_schedule_goes_on_from_then(
    app: App, report: Task[Any, Any], clock: FakeClock
) -> None:
    first = app.schedules.upsert("s", report.call(of="day"), every="15m").next_at
    app.schedules.pause("s")
    assert app.schedules.next_runs("s") == []
    clock.advance(timedelta(hours=1))
    app.schedules.resume("s")
    # In step with the ticks before it.
    assert app.schedules.get("s").next_at == first + 4 * 15 * MINUTE
    app.schedules.remove("s")
    assert app.schedules.list() == []


def test_the_next_runs_are_told_in_the_own_time_zone(app: App, report: Task[Any, Any]) -> None:
    app.schedules.upsert("s", report.call(of="day"), cron="0 3 * * *", tz="Europe/Berlin")
    runs = app.schedules.next_runs("s", 5)
    assert [each.isoformat() for each in runs] == [
        f"2030-01-0{day}T03:00:00+01:00" for day in range(1, 6)
    ]


@pytest.mark.parametrize("verb", ["remove", "pause", "resume", "trigger", "next_runs", "get"])
def test_a_schedule_that_is_not_there_is_told(app: App, verb: str) -> None:
    with pytest.raises(ScheduleNotFound, match="no schedule 'x'"):
        getattr(app.schedules, verb)("x")


# -- scanners


def test_a_scanner_is_a_task_with_one_attempt_that_never_overlaps(app: App) -> None:
    @app.scanner(every="15m", queue="ops")
    def check() -> ScanReport:
        return ScanReport(found=2, repaired=1, notes=["one is left"])

    (found,) = app.registry.declared_schedules()
    assert (found.id, found.overlap, found.job.queue) == ("check", False, "ops")
    assert '"attempts":1' in found.job.options
    assert check.function() == ScanReport(2, 1, ["one is left"])
    packed = check.signature.pack_result(check.function())
    assert packed.args == '{"found":2,"repaired":1,"notes":["one is left"]}'
    assert check.signature.unpack_result(packed.args) == ScanReport(2, 1, ["one is left"])


def test_a_scanner_returns_a_report_or_fails(app: App) -> None:
    @app.scanner(every="15m")
    def check():  # type: ignore[no-untyped-def]
        return {"found": 1}

    with pytest.raises(TypeError, match=r"return limpet.ScanReport"):
        check.function()


async def _async_report() -> ScanReport:
    return ScanReport()


def test_a_scanner_may_be_async(app: App) -> None:
    assert app.scanner(every="15m", name="check")(_async_report).is_async


def test_a_scanner_is_a_plain_function_without_retries(app: App, report: Task[Any, Any]) -> None:
    with pytest.raises(InvalidOption, match="no retry"):
        app.scanner(every="15m", retry=None)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="plain function"):
        app.scanner(every="15m")(report)
    with pytest.raises(InvalidOption, match="either every= or cron="):
        app.scanner()


@pytest.mark.parametrize(
    "given", [{"found": -1}, {"found": 1, "repaired": 2}, {"notes": "x"}, {"found": "1"}]
)
def test_a_report_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="ScanReport"):
        ScanReport(**given)


def test_a_store_is_opened_by_schedules_only_when_they_are_used(url: str, tmp_path: Path) -> None:
    app = App(url)
    app.every("15m")(plain)
    assert not (tmp_path / "jobs.db").exists()
    app.close()


def plain() -> None: ...
