"""The judge of overlap is itself judged: it finds what was planted, and nothing else."""

import asyncio
import subprocess
import time
from pathlib import Path

import pytest
from lifecycle.intervals import Record, Records, attempts, doubles, overlaps, read, start_daemon
from lifecycle.recorder import EVERY_SECONDS, Recorder, boottime


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records"


def planted(job: str, token: int, *at_ms: int, role: str = "job") -> list[Record]:
    kinds = ["begin", *["sample"] * (len(at_ms) - 2), "end"][: len(at_ms)]
    return [
        Record(at * 1_000_000, job, token, 7, role, kind)  # type: ignore[arg-type]
        for at, kind in zip(at_ms, kinds, strict=True)
    ]


def test_a_planted_overlap_is_found() -> None:
    found = overlaps(planted("a", 1, 0, 10, 20, 30) + planted("a", 2, 25, 35))
    assert [(each.earlier.token, each.later.token) for each in found] == [(1, 2)]
    assert "5.0 ms together" in str(found[0])


def test_attempts_one_after_the_other_pass() -> None:
    assert overlaps(planted("a", 1, 0, 10, 20) + planted("a", 2, 21, 30)) == []


def test_other_jobs_at_the_same_time_pass() -> None:
    assert overlaps(planted("a", 1, 0, 10, 20) + planted("b", 1, 5, 15)) == []


def test_an_attempt_inside_another_is_found() -> None:
    assert len(overlaps(planted("a", 1, 0, 100) + planted("a", 2, 40, 50))) == 1


@pytest.mark.parametrize("role", ["subprocess", "daemon", "thread"])
def test_what_goes_on_after_its_job_is_found(role: str) -> None:
    """The job itself ended in time; what it had started did not."""
    first = planted("a", 1, 0, 20) + planted("a", 1, 5, 15, 25, 35, role=role)
    found = overlaps(first + planted("a", 2, 30, 40))
    assert [each.earlier.last_role for each in found] == [role]


def test_an_earlier_attempt_that_wakes_up_long_after_a_third_began_is_found() -> None:
    found = overlaps(
        planted("a", 1, 0, 10) + planted("a", 2, 20, 30) + planted("a", 3, 40, 50)
        + planted("a", 1, 45, role="subprocess")
    )  # fmt: skip
    assert {(each.earlier.token, each.later.token) for each in found} == {(1, 2), (1, 3)}


def test_a_token_that_is_run_twice_is_found() -> None:
    assert doubles(planted("a", 1, 0, 10) + planted("a", 1, 20, 30)) == [
        "job a began 2 times under token 1"
    ]
    assert doubles(planted("a", 1, 0, 10) + planted("a", 2, 20, 30)) == []


@pytest.mark.parametrize("kept", [1, 12, 30])
def test_half_a_last_line_is_left_out(file: Path, kept: int) -> None:
    recorder = Recorder(file, "a", 1)
    recorder.write("begin")
    whole = len(file.read_bytes())
    recorder.write("end")
    file.write_bytes(file.read_bytes()[: whole + kept])
    assert [record.kind for record in read(file)] == ["begin"]


def test_half_a_line_in_the_middle_costs_no_other_record(file: Path) -> None:
    recorder = Recorder(file, "a", 1)
    recorder.write("begin")
    with file.open("ab") as torn:
        torn.write(b"\n123456 a 1")
    recorder.write("end")
    assert [record.kind for record in read(file)] == ["begin", "end"]


def test_who_reads_again_reads_only_what_is_new(file: Path) -> None:
    records = Records(file)
    assert records.read() == []
    Recorder(file, "a", 1).write("begin")
    assert [record.job for record in records.read()] == ["a"]
    # What was read is gone from the file: it is known, and not looked at again.
    file.write_bytes(bytes(len(file.read_bytes())))
    Recorder(file, "b", 1).write("begin")
    assert [record.job for record in records.read()] == ["a", "b"]


def test_a_record_that_was_read_by_half_is_read_whole_the_next_time(file: Path) -> None:
    Recorder(file, "a", 1).write("begin")
    Recorder(file, "b", 1).write("begin")
    text = file.read_bytes()
    for length in range(len(text)):
        file.write_bytes(text[:length])
        records = Records(file)
        assert [record.job for record in records.read()] in ([], ["a"])
        file.write_bytes(text)
        assert [record.job for record in records.read()] == ["a", "b"]


def test_there_may_be_no_file(file: Path) -> None:
    assert read(file) == []


def test_the_clock_is_boottime(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = time.clock_gettime_ns

    def told(clock: int) -> int:
        asked.append(clock)
        return real(clock)

    monkeypatch.setattr(time, "clock_gettime_ns", told)
    before = real(time.CLOCK_BOOTTIME)
    Recorder(file, "a", 1).write("begin")
    assert asked == [time.CLOCK_BOOTTIME]
    assert before <= read(file)[0].at <= real(time.CLOCK_BOOTTIME)


def test_sync_async_and_a_subprocess_record_alike(file: Path) -> None:
    Recorder(file, "sync", 1).run(0.1)
    asyncio.run(Recorder(file, "async", 1).arun(0.1))
    child = Recorder(file, "child", 3)
    subprocess.run(child.command("child", 0.1), check=True)
    found = attempts(read(file))
    assert found.keys() == {"sync", "async", "child"}
    for (attempt,) in found.values():
        assert attempt.last - attempt.first >= 0.1e9
    kinds = {job: [r.kind for r in read(file) if r.job == job] for job in found}
    for job, of_job in kinds.items():
        assert (of_job[0], of_job[-1]) == ("begin", "end"), job
        assert of_job.count("sample") >= 0.1 / EVERY_SECONDS / 4, job
    assert {record.role for record in read(file) if record.job == "child"} == {"subprocess"}
    assert found["child"][0].token == 3


def test_a_subprocess_has_next_to_nothing_to_import_before_it_records(file: Path) -> None:
    """At the priority of an executor, on a busy machine, each import is seconds."""
    python, *words = Recorder(file, "a", 1).command("child", 0)
    told = subprocess.run(
        [python, "-X", "importtime", *words], check=True, stderr=subprocess.PIPE, text=True
    )
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "os" in imported
    assert not imported & {"asyncio", "subprocess", "typing", "pathlib", "dataclasses"}
    assert read(file)[0].role == "subprocess"


def test_a_subprocess_that_outlives_its_job_is_found_for_real(file: Path) -> None:
    first = Recorder(file, "a", 1)
    first.write("begin")
    with subprocess.Popen(first.command("child", 20)) as child:
        try:
            give_up = time.monotonic() + 20
            while not any(record.role == "subprocess" for record in read(file)):
                assert time.monotonic() < give_up
                time.sleep(EVERY_SECONDS)
            first.write("end")
            Recorder(file, "a", 2).run(0.1)
        finally:
            child.kill()
    assert len(overlaps(read(file))) == 1


@pytest.mark.parametrize("bare", [False, True], ids=["marked", "bare"])
def test_a_daemon_records_for_its_attempt_after_its_parents_are_gone(
    file: Path, bare: bool
) -> None:
    recorder = Recorder(file, "a", 5)
    recorder.write("begin")
    start_daemon(recorder, 0.2, bare=bare)
    recorder.write("end")
    over = boottime()
    give_up = time.monotonic() + 20
    while [record.kind for record in read(file) if record.role == "daemon"][-1:] != ["end"]:
        assert time.monotonic() < give_up
        time.sleep(EVERY_SECONDS)
    attempt = attempts(read(file))["a"][0]
    assert attempt.last > over
    assert attempt.last_role == "daemon"
