"""The command line itself: help, completion, near words, and what a terminal gets to see."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from acceptance.command import Run

LIMPET = (sys.executable, "-m", "limpet.cli.main")
ESCAPE = re.compile(r"\033\[[0-9;?]*[a-zA-Z]")


def seen(
    folder: Path, *words: str, columns: int = 80, environ: dict[str, str] | None = None
) -> str:
    """What a person sees who runs it in a terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, columns))
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LIMPET_", "NO_COLOR"))}
    with subprocess.Popen(
        [*LIMPET, *words], cwd=folder, env={**inherited, "TERM": "xterm", **(environ or {})},
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
    ):  # fmt: skip
        os.close(slave)
        parts = []
        try:
            while part := os.read(master, 65536):
                parts.append(part)
        except OSError:
            pass  # the other end was closed
    os.close(master)
    return b"".join(parts).decode().replace("\r\n", "\n")


# -- near words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("jbos",),
            "'jbos' is no command of limpet (did you mean jobs?); see limpet --help",
        ),
        (("jobs", "retyr"), "(did you mean retry?); see limpet jobs --help"),
        (
            ("jobs", "--queu", "a"),
            "--queu (did you mean --queue or --debug?); see limpet jobs --help",
        ),
        (("enqueue",), "missing argument 'TASK'; see limpet enqueue --help"),
        (("jobs", "move", "--all"), "missing option '--to'; see limpet jobs move --help"),
        (("jobs", "--queue"), "option '--queue' requires an argument; see limpet jobs --help"),
        (("enqueue", "add", "--priority", "high"), "invalid value for '--priority'"),
        (("job",), "missing command; see limpet job --help"),
        ((), "missing command; see limpet --help"),
        (("workers", "w1"), "unexpected extra argument"),
        (("job\x1b[2J",), r"job\x1b[2J"),
    ],
)
def test_wrong_usage_is_one_sentence_that_names_the_near_word(
    limpet: Run, words: tuple[str, ...], said: str
) -> None:
    given = limpet(*words, app=None)
    assert given.returncode == 2
    assert given.stdout == ""
    assert said in given.stderr
    assert given.stderr.startswith("limpet: ")
    assert given.stderr.count("\n") == 1


def test_what_stands_before_an_action_is_meant_for_it(limpet: Run) -> None:
    for n in range(2):
        limpet("enqueue", "add", json.dumps({"a": n, "b": n}))
    limpet("enqueue", "send", '{"to": "x"}')
    before = limpet("jobs", "--task", "add", "--app", "shop:app", "discard", "--yes", app=None)
    assert before.stdout == "2 jobs discarded\n", before
    both = limpet("jobs", "--task", "add", "discard", "--task", "send", "--yes")
    assert both.stdout == "1 job discarded\n", both


# -- help


def test_help_names_every_command_and_fits(limpet: Run) -> None:
    text = limpet("--help", app=None).stdout
    commands = (
        "demo worker top enqueue jobs job quarantine queues keys breakers schedules workers hosts "
        "gate migrate fsck move"
    )
    for command in commands.split():
        assert re.search(rf"^  {command}  ", text, re.MULTILINE), command
        shown = limpet(command, "-h", app=None)
        assert shown.returncode == 0, shown
        assert f"Usage: limpet {command} " in shown.stdout
        assert "--debug" in shown.stdout or "Actions" in shown.stdout
    assert "\033" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "[worker] in limpet.toml" in " ".join(limpet("gate", "status", "-h").stdout.split())


def test_version_is_printed(limpet: Run) -> None:
    assert re.fullmatch(r"limpet \d+\.\d+\.\d+\n", limpet("--version", app=None).stdout)


# -- a terminal, and what is none


@pytest.fixture
def jobs(limpet: Run, tmp_path: Path) -> Path:
    limpet("enqueue", "add", '{"a": 1, "b": 2}', "--key", "[bold]k[/bold]")
    return tmp_path


TARGET = ("--url", "sqlite:///jobs.db")


@pytest.mark.parametrize("words", [("--help",), ("jobs", *TARGET), ("top", "--once", *TARGET)])
def test_a_terminal_has_colours_unless_somebody_wants_none(
    jobs: Path, words: tuple[str, ...]
) -> None:
    coloured = seen(jobs, *words)
    assert ESCAPE.search(coloured)
    for environ in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\033" not in seen(jobs, *words, environ=environ)
    assert max(len(ESCAPE.sub("", line)) for line in coloured.split("\n")) <= 80


def test_an_id_is_whole_on_a_narrow_terminal_and_nothing_is_cut_elsewhere(
    jobs: Path, limpet: Run
) -> None:
    (job,) = json.loads(limpet("jobs", "--json").stdout)["jobs"]
    narrow = ESCAPE.sub("", seen(jobs, "jobs", *TARGET, columns=40))
    assert job["id"] in narrow
    assert "no room for" in narrow
    piped = limpet("jobs", COLUMNS="40").stdout
    for word in (job["id"], "FAILURES", "ORPHANS", "default", "ready"):
        assert word in piped
    shown = seen(jobs, "job", "show", job["id"], *TARGET)
    assert "[bold]k[/bold]" in ESCAPE.sub("", shown)


def test_letters_that_a_stream_has_not_are_replaced(jobs: Path) -> None:
    shown = seen(jobs, "top", "--once", *TARGET, columns=30, environ={"PYTHONIOENCODING": "ascii"})
    assert "Traceback" not in shown
    assert "limpet top" in shown
    assert "~" in shown
    assert shown.isascii()


# -- completion


def completed(line: str) -> list[str]:
    """What bash, or whatever else asks in this way, is offered for the last word of a line."""
    words = line.split(" ")
    given = subprocess.run(
        LIMPET,
        env={
            **os.environ, "_LIMPET_COMPLETE": "complete_bash", "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert given.stderr == ""
    return given.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("limpet jo", {"jobs", "job"}),
        ("limpet jobs re", {"retry"}),
        ("limpet jobs --st", {"--state"}),
        ("limpet jobs --state s", {"scheduled", "succeeded"}),
        ("limpet jobs retry --dr", {"--dry-run"}),
        ("limpet worker --gate-m", {"--gate-memory"}),
        ("limpet worker --log p", {"pretty", "plain"}),
        ("limpet queues dr", {"drain"}),
        ("limpet nothing --x", set()),
    ],
)
def test_commands_options_and_states_are_completed(line: str, offered: set[str]) -> None:
    assert set(completed(line)) == offered


def test_bash_completes_with_the_script_that_is_printed(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "limpet").write_text(f'#!/bin/sh\nexec {" ".join(LIMPET)} "$@"\n')
    (tmp_path / "limpet").chmod(0o755)
    script = (
        'eval "$(_LIMPET_COMPLETE=source_bash limpet)"; COMP_WORDS=(limpet jobs dis); COMP_CWORD=2;'
        ' _limpet_completion limpet; echo "${COMPREPLY[@]}"'
    )
    given = subprocess.run(
        [bash, "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (given.stdout, given.stderr) == ("discard\n", "")
