"""The programs that are fetched for the tests: used where they are, and never silently missing."""

from pathlib import Path

import pytest
from servers import debian
from servers.postgres import programs
from servers.process import NoServer


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As on a machine that has neither the programs nor Debian's tools."""
    programs = {f"some-{name}": (f"no/such/{name}", f"LIMPET_TEST_{name}") for name in ("A", "B")}
    monkeypatch.setattr(debian, "PROGRAMS", programs)
    monkeypatch.setattr(debian, "UNPACKED", tmp_path / "debian")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_what_cannot_be_had_is_said(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert debian.main() == 1
    told = capsys.readouterr().err
    assert "The tests need some-A, some-B" in told
    assert "Install them, or name the program in LIMPET_TEST_A and LIMPET_TEST_B." in told


def test_program_that_is_named_is_used(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A", "B"):
        program = nowhere / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        monkeypatch.setenv(f"LIMPET_TEST_{name}", str(program))
        assert debian.found(f"some-{name}") == program
    assert debian.main() == 0


def test_what_apt_says_is_passed_on(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("apt-get", "apt-cache", "dpkg"):
        (nowhere / name).write_text("#!/bin/sh\necho no network >&2\nexit 100\n")
        (nowhere / name).chmod(0o755)
    assert debian.main() == 1
    assert "apt-get says: no network" in capsys.readouterr().err
    assert not (nowhere / "debian.packages").exists()


def test_version_that_is_not_there_is_a_failure_with_a_sentence() -> None:
    with pytest.raises(NoServer, match="no PostgreSQL 9: .* install it, or set"):
        programs(9)
