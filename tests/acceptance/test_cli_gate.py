"""Hosts and the gate as a person asks about them."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from contract.driver import LEASE, new_id
from permits.measured import GIB, Measured

from limpet.cli.main import main
from limpet.domain.clock import SystemClock
from limpet.domain.host import Sample, Span
from limpet.domain.permit import Room
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.weight import Weight
from limpet.ops.record import iso
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

SERVER = "web-2"


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
    monkeypatch.setenv("LIMPET_SERVER_ID", SERVER)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def say(url: str, store: Store, capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main([*words, "--url", url])
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def hold(store: Store, weight: Weight, server: str = SERVER, name: str = "backup") -> str:
    """A permit of somebody outside."""
    session = NewSession(new_id(), SessionKind.PERMIT, name, "host", 1, LEASE)
    store.register(session)
    assert store.take_permit(session.id, weight, Room(server, 64_000, 64 * GIB))
    return session.id


def test_status_of_a_calm_host_is_ready(say: Say, store: Store) -> None:
    with Measured(store, SERVER, cores=4, busy=30):
        holder = hold(store, Weight(1.5, "2GiB"))
        said = say("gate", "status", "--json")
    assert said.code == 0
    status = said.json
    assert status["server"] == SERVER
    assert status["ready"] is True
    assert (status["cpu_raw"], status["cpu_ema"], status["cpu_effective"]) == (30, 30, 30)
    assert status["memory"] == {"total": 8 * GIB, "free": 8 * GIB, "used_percent": 0}
    assert set(status["pressure"]) == {"cpu", "memory", "io"}
    assert status["threshold"] == {"cpu": 80, "memory": 90, "pressure": 10, "io": 40}
    (permit,) = status["permits"]
    assert (permit["holder"], permit["what"], permit["cpu"]) == (holder, "backup", 1.5)
    assert (status["source"], status["reason"]) == ("a test", "")


def test_status_of_a_busy_host_says_why_and_exits_with_1(say: Say, store: Store) -> None:
    with Measured(store, SERVER, busy=84):
        said = say("gate", "status", "--json")
        text = say("gate", "status")
    assert said.code == text.code == 1
    assert said.json["ready"] is False
    assert said.json["reason"] == f"waiting: {SERVER} CPU 84 % of 80 %"
    assert text.out.splitlines()[:2] == [f"{SERVER}: not ready", f"  {said.json['reason']}"]
    assert "84/80 %" in text.out


def test_host_whose_room_is_given_away_is_not_ready(say: Say, store: Store) -> None:
    with Measured(store, SERVER, cores=2):
        hold(store, Weight(2))
        assert say("gate", "status", "--json").json["reason"].endswith("reserved 2 of 2 cores")
        hold(store, Weight(heavy=True), server="web-3")
        with Measured(store, "web-3"):
            said = say("gate", "status", "--json", "--server-id", "web-3")
    assert said.code == 1
    assert said.json["reason"] == "waiting: web-3 has heavy work"


def test_host_without_a_monitor_is_measured_and_says_so(say: Say, store: Store) -> None:
    began = time.monotonic()
    said = say("gate", "status", "--json")
    assert 0.9 < time.monotonic() - began < 15
    assert said.json["source"].startswith("measured here, as no monitor reports on this server; ")
    assert 0 <= said.json["cpu_raw"] <= 100
    assert said.code == (0 if said.json["ready"] else 1)


def test_thresholds_are_those_of_the_worker_that_measures(
    say: Say, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_GATE_CPU", "20")
    assert say("gate", "status", "--json").json["threshold"]["cpu"] == 20  # where none does
    with Measured(store, SERVER, busy=30):
        assert say("gate", "status", "--json").json["threshold"]["cpu"] == 80


def test_name_of_the_server_is_read_from_the_file_of_settings(
    say: Say, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIMPET_SERVER_ID")
    (tmp_path / "limpet.toml").write_text('[worker]\nserver_id = "from-file"\n')
    with Measured(store, "from-file"):
        assert say("gate", "status", "--json").json["server"] == "from-file"


def test_hosts_shows_each_with_bars(
    say: Say, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert say("hosts").out == "no hosts: no worker measures one, and nobody holds a permit\n"
    with Measured(store, SERVER, cores=4, busy=50), Measured(store, "web-3", busy=90):
        hold(store, Weight(0.5, "2GiB"))
        hold(store, Weight(heavy=True), server="cron-1")
        hosts = say("hosts", "--json").json
        said = say("hosts")
    assert said.code == 0
    assert [each["server"] for each in hosts] == ["cron-1", SERVER, "web-3"]
    assert [each["monitor"] for each in hosts] == [None, "a-worker", "a-worker"]
    assert [each["ready"] for each in hosts] == [None, True, False]
    assert hosts[1]["age_seconds"] < 10
    head, cron, web_2, web_3, *reasons = said.out.splitlines()
    assert head.split() == [
        "SERVER", "CPU", "MEMORY", "PRESSURE", "PERMITS", "RESERVED", "FOR", "MONITOR", "AGE",
        "STATE",
    ]  # fmt: skip
    assert "not measured" in cron
    assert "heavy" in cron
    assert re.search(r" ━{5} +50/80 % ", web_2)
    assert "1: 0.5 of 4 cores, 2 GiB of 7.2 GiB" in web_2
    assert web_3.endswith("not ready")
    assert reasons[0].startswith("  no monitor reports on cron-1")
    assert reasons[1:] == ["  waiting: web-3 CPU 90 % of 80 %"]


def samples(now: int) -> list[Sample]:
    """A second of each of the last minutes, and a minute of each of the last hours."""
    body = json.dumps({"cpu": 40.0, "memory": 91.5, "pressure": None})
    seconds = [Sample(Span.SECOND, now - each * 60_000_000, body) for each in range(10)]
    minutes = [Sample(Span.MINUTE, now - each * 3_600_000_000, body) for each in range(100)]
    return [*seconds, *minutes, Sample(Span.SECOND, now - 1_000_000, '["of another version"]')]


def test_host_by_its_name_is_shown_with_its_past(
    say: Say, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    now = SystemClock().wall()
    with Measured(store, SERVER, cores=4, busy=50):
        lifetime = timedelta(seconds=10)
        store.publish_host(SERVER, store.hosts(SERVER)[0].body, lifetime, samples(now))
        holder = hold(store, Weight(0.5, "2GiB"))
        told = say("hosts", SERVER, "--json").json
        said = say("hosts", SERVER)
    assert told["server"] == SERVER
    assert [len(told["history"][kept]) for kept in ("seconds", "minutes")] == [10, 100]
    newest = told["history"]["seconds"][-1]
    assert (newest["cpu"], newest["memory"], newest["pressure"]) == (40.0, 91.5, None)
    assert newest["at"] == iso(now)
    assert told["executors"] == []
    assert said.code == 0
    assert said.out.startswith(f"{SERVER}: ready  measured by a-worker, ")
    assert "pressure  CPU unknown, memory unknown, disk unknown" in said.out
    assert said.out.count("▄") >= 10
    assert said.out.count("█  most 92 %") == 2
    assert re.search(rf"backup  0.5 cores, 2 GiB  +\ds  caller {holder}", said.out)
    assert max(map(len, said.out.splitlines())) <= 80


def test_host_that_is_gone_has_its_past(say: Say, store: Store) -> None:
    now = SystemClock().wall()
    store.publish_host("web-9", "{}", timedelta(microseconds=1), samples(now))
    said = say("hosts", "web-9")
    assert said.code == 0
    assert said.out.startswith("web-9: not measured\n")
    assert "most 92 %" in said.out
    assert len(say("hosts", "web-9", "--json").json["history"]["minutes"]) == 100


def test_host_that_nobody_knows_is_said_in_a_sentence(say: Say) -> None:
    said = say("hosts", "web-8")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("limpet: there is no host 'web-8': ")
    assert said.err.count("\n") == 1


def test_hosts_can_be_watched_on_a_terminal(store: Store, url: str, say: Say) -> None:
    assert say("hosts", "--watch").code == 2  # this is none
    with Measured(store, SERVER, cores=4, busy=50):
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "limpet.cli.main", "hosts", "--watch", "--url", url]
        environ = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
        process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        seen = b""
        until = time.monotonic() + 20
        while b"q quits" not in seen and time.monotonic() < until:
            seen += os.read(ours, 65536)
        assert SERVER.encode() in seen
        os.write(ours, b"q")
        while True:
            try:
                if not os.read(ours, 65536):
                    break
            except OSError:
                break
        assert process.wait(timeout=10) == 0
        os.close(ours)


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_says_a_line_per_change(store: Store, url: str, as_json: bool) -> None:
    words = [sys.executable, "-m", "limpet.cli.main", "gate", "watch", "--url", url]
    with Measured(store, SERVER, busy=20) as monitor:
        process = subprocess.Popen(
            words + ["--json"] * as_json, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        monitor.say(91)
        lines.append(process.stdout.readline())
        monitor.say(93)  # the same reason, with another number: no line
        assert select.select([process.stdout], [], [], 2.5)[0] == []
        monitor.say(20)
        lines.append(process.stdout.readline())
        process.send_signal(2)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")
    if as_json:
        assert [json.loads(line)["ready"] for line in lines] == [True, False, True]
        return
    ready, busy, again = lines
    assert re.fullmatch(rf"\d\d:\d\d:\d\d  {SERVER}: ready, CPU 20 % of 80 %, .*\n", ready)
    assert busy.rstrip().endswith(f"permits 0, waiting: {SERVER} CPU 91 % of 80 %")
    assert ": ready" in again


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gate", "run"), "which command"),
        (("gate", "run", "--memory", "lots", "--", "true"), "--memory is 'lots'"),
        (("gate", "run", "--cpu", "-1", "--", "true"), "write a number of cores"),
        (("gate", "run", "--timeout", "soon", "--", "true"), "--timeout"),
        (("gate", "run", "--name", "a b", "--", "true"), "permit 'a b'"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(
    url: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert main(["gate", words[1], "--url", url, *words[2:]]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_wrong_name_of_a_server_is_refused(say: Say) -> None:
    said = say("gate", "status", "--server-id", "not a name")
    assert said.code == 2
    assert "server_id" in said.err


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "run", "--help"]) == 0
    said = capsys.readouterr().out
    assert "limpet gate run [options] -- COMMAND" in said
    assert "128 + n" in said
