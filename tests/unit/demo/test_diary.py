"""The diary tells when a run lived, also when it was cut off."""

from pathlib import Path

import pytest

from limpet.demo.diary import VARIABLE, Pen, read


def test_marks_become_one_trace_for_each_process_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    ended, cut_off = Pen("a", 1, "job"), Pen("a", 2, "daemon")
    ended.alive()  # within 10 ms of the first mark: not written
    ended.end()
    first, second = read(tmp_path)
    assert (first.job, first.token, first.who, first.ended, first.marks) == ("a", 1, "job", True, 2)
    assert (second.token, second.who, second.ended, second.marks) == (2, "daemon", False, 1)
    assert first.begin <= second.begin <= first.last
    assert cut_off is not None


def test_a_mark_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary" / "a.1.job.7").write_text("begin 100\nalive 200\nend 3")
    (tmp_path / "diary" / "b.1.job.8").write_text("beg")
    (trace,) = read(tmp_path)
    assert (trace.begin, trace.last, trace.ended) == (100, 200, False)
