"""A worker's settings: an argument, else a variable, else a line, else the default."""

from pathlib import Path
from typing import Any

import pytest
from settings_page import PAGE, page

from limpet import InvalidOption, settings
from limpet.cli import worker
from limpet.cli.main import main
from limpet.domain.load import Smoothing
from limpet.gate.assess import Thresholds
from limpet.settings import WorkerSettings, load_worker, worker_options
from limpet.settings.worker import declared
from limpet.worker.wire.plan import Plan


def loaded(folder: Path, *, toml: str = "", env: dict[str, str] | None = None, **given: Any) -> Any:
    if toml:
        (folder / settings.FILE).write_text(toml)
    return load_worker(given=given, environ=env or {}, folder=folder)


def test_without_a_word_the_defaults_hold(tmp_path: Path) -> None:
    found = loaded(tmp_path, queues=[], name=None)
    assert found == WorkerSettings()
    assert (found.lease, found.drain, found.grace) == (10, 25, 5)
    assert (found.async_jobs, found.lanes, found.queues) == (100, None, {})
    assert (found.pid_namespace, found.burst, found.reload) == (True, False, False)


def test_an_argument_is_stronger_than_a_variable_and_that_than_a_line(tmp_path: Path) -> None:
    toml = '[worker]\nlease = "20s"\ndrain = 30\ngrace = "7s"\n'
    found = loaded(
        tmp_path, toml=toml, env={"LIMPET_LEASE": "30s", "LIMPET_DRAIN": "40"}, lease="40s"
    )
    assert (found.lease, found.drain, found.grace) == (40, 40, 7)


@pytest.mark.parametrize(
    ("name", "text", "line", "value"),
    [
        ("name", "w1", '"w1"', "w1"),
        ("queues", "email=5,video", '["email=5", "video"]', {"email": 5, "video": None}),
        ("queues", "email = 5", "{email = 5}", {"email": 5}),
        ("lanes", "4", "4", 4),
        ("async_jobs", "0", "0", 0),
        ("lease", "1m", '"1m"', 60),
        ("drain", "0", "0", 0),
        ("grace", "1.5", "1.5", 1.5),
        ("max_jobs", "1000", "1000", 1000),
        ("max_rss", "512MB", '"512MB"', 512_000_000),
        ("max_rss", "2GiB", '"2 gib"', 2 * 1024**3),
        ("max_rss", "1.5Gi", '"1536 MiB"', 1536 * 1024**2),
        ("max_rss", "20000000", "20000000", 20_000_000),
        ("pid_namespace", "0", "false", False),
        ("burst", "yes", "true", True),
        ("reload", "1", "1", True),
        ("server_id", "web-2", '"web-2"', "web-2"),
        ("gate_cpu", "65", "65", 65.0),
        ("gate_memory", "99.5", "99.5", 99.5),
        ("gate_pressure", "100", '"100"', 100.0),
        ("gate_io", "30", "30", 30.0),
        ("gate_rise", "1", "1.0", 1.0),
        ("gate_fall", "0.05", "0.05", 0.05),
    ],
)
def test_every_setting_is_an_argument_a_variable_and_a_line(
    tmp_path: Path, name: str, text: str, line: str, value: Any
) -> None:
    by_variable = getattr(loaded(tmp_path, env={f"LIMPET_{name.upper()}": text}), name)
    argument: dict[str, Any] = {name: text}
    by_argument = getattr(loaded(tmp_path, **argument), name)
    by_line = getattr(loaded(tmp_path, toml=f"[worker]\n{name} = {line}\n"), name)
    assert by_argument == by_variable == by_line == value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("name", "a b", "name 'a b': a name has"),
        ("name", 5, "name is 5; write a text"),
        ("queues", ["email=many"], "queues: email is 'many'; write a whole number from 1 up"),
        ("queues", ["email=0"], "queues: email is '0'"),
        ("queues", ["email=1", "email=2"], "queues names the queue 'email' twice"),
        ("queues", ["e mail"], "queues: queue 'e mail': a name has"),
        ("queues", 5, "queues is 5; write queues such as"),
        ("queues", [5], "queues is 5; write a text"),
        ("lanes", -1, "lanes is -1; write a whole number from 0 up"),
        ("lanes", True, "lanes is True"),
        ("async_jobs", "many", "async_jobs is 'many'"),
        ("lease", "1s", "lease is '1s'; it must be at least 2s and at most 1h"),
        ("lease", "2h", "lease is '2h'; it must be"),
        ("lease", "soon", "lease is 'soon'; write a timedelta"),
        ("drain", -1, "drain is -1"),
        ("max_jobs", 0, "max_jobs is 0; write a whole number from 1 up"),
        ("max_rss", 512, "max_rss is 512; write a size such as .* at least 10MB"),
        ("max_rss", "lots", "max_rss is 'lots'"),
        ("pid_namespace", "maybe", "pid_namespace is 'maybe'; write 1 or 0"),
        ("burst", 2, "burst is 2; write 1 or 0"),
        ("server_id", "a b", "server_id 'a b': a name has"),
        ("gate_cpu", 0, "gate_cpu is 0; write a number from 1 up to 100"),
        ("gate_memory", "101", "gate_memory is '101'; write a number from 1 up to 100"),
        ("gate_pressure", True, "gate_pressure is True; write a number"),
        ("gate_pressure", "nan", "gate_pressure is 'nan'; write a number"),
        ("gate_rise", 0, "gate_rise is 0; write a number above 0 and up to 1"),
        ("gate_fall", "slow", "gate_fall is 'slow'; write a number above 0"),
        ("gate_fall", 0.8, "gate_fall is 0.8 and gate_rise 0.7; the average must not fall"),
        ("colour", 1, "worker: unknown setting colour; known are name, queues"),
    ],
)
def test_a_wrong_argument_is_one_sentence_with_its_name(
    tmp_path: Path, name: str, value: Any, words: str
) -> None:
    with pytest.raises(InvalidOption, match=f"^{words}"):
        loaded(tmp_path, **{name: value})


def test_a_wrong_value_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="^LIMPET_MAX_RSS is 'big'"):
        loaded(tmp_path, env={"LIMPET_MAX_RSS": "big"})
    with pytest.raises(InvalidOption, match="^LIMPET_QUEUES: email is 'x'"):
        loaded(tmp_path, env={"LIMPET_QUEUES": "email=x"})
    with pytest.raises(InvalidOption, match=r"^lanes in \[worker\] of .*limpet.toml is 'x'"):
        loaded(tmp_path, toml='[worker]\nlanes = "x"\n')
    with pytest.raises(InvalidOption, match=r"^\[worker\] in .*limpet.toml: unknown setting lane;"):
        loaded(tmp_path, toml="[worker]\nlane = 1\n")
    with pytest.raises(InvalidOption, match="write worker as a table"):
        loaded(tmp_path, toml="worker = 1\n")


def test_a_worker_that_could_run_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="could run nothing"):
        loaded(tmp_path, lanes=0, async_jobs=0)


def test_the_lines_of_a_worker_do_not_disturb_a_client(tmp_path: Path) -> None:
    (tmp_path / settings.FILE).write_text('url = "sqlite:///x.db"\n[worker]\nlease = "20s"\n')
    assert settings.load(environ={}, folder=tmp_path).url == "sqlite:///x.db"


def test_what_a_worker_does_without_a_word_is_what_the_gate_does() -> None:
    """The domain's own defaults are those of the gate, which is also used without a worker."""
    found = WorkerSettings()
    of_gate = (found.gate_cpu, found.gate_memory, found.gate_pressure, found.gate_io)
    assert Thresholds(*of_gate) == Thresholds()
    assert Smoothing(found.gate_rise, found.gate_fall) == Smoothing()


def settings_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> WorkerSettings:
    """Those with which the command line would begin a worker."""
    plans: list[Plan] = []
    monkeypatch.setattr(worker, "become", plans.append)
    assert main(words) == 0
    (plan,) = plans
    return plan.settings


def test_command_line_takes_what_is_set_of_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMPET_GATE_MEMORY", "70")
    words = ["worker", "a:b", "--server-id", "web-2", "--gate-cpu", "65", "--gate-fall", "0.2"]
    found = settings_of(words, monkeypatch)
    assert (found.server_id, found.gate_cpu, found.gate_memory) == ("web-2", 65.0, 70.0)
    assert (found.gate_pressure, found.gate_rise, found.gate_fall) == (10.0, 0.7, 0.2)


def test_every_setting_is_declared_once_with_its_help() -> None:
    """What is no field of `WorkerSettings` is no setting, and each field says how it is written."""
    assert list(declared()) == list(WorkerSettings._fields)
    helps = {option.name: option.help for option in worker_options()}
    assert helps["lease"] == "how long the store waits for a silent worker (else 10s)"
    assert helps["gate_fall"] == "how slowly the average of the CPU falls (else 0.1)"
    assert helps["name"] == "the name of this worker (else the host's name)"
    assert helps["burst"] == "stop when nothing is ready to run"
    assert set(WorkerSettings._fields) - set(helps) == {"pid_namespace"}


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make chart`"


def test_every_option_of_a_worker_reaches_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "name": "w", "queues": "email=5", "lanes": "3", "async_jobs": "7", "lease": "4s",
        "drain": "3s", "grace": "2s", "max_jobs": "9", "max_rss": "1GB", "burst": None,
        "reload": None, "server_id": "web-2", "gate_cpu": "65", "gate_memory": "66",
        "gate_pressure": "67", "gate_io": "68", "gate_rise": "0.5", "gate_fall": "0.2",
    }  # fmt: skip
    words = ["worker", "a:b"]
    for option in worker_options():
        value = given[option.name]
        words += [option.flags[-1]] if value is None else [option.flags[-1], value]
    found = settings_of(words, monkeypatch)
    assert found == WorkerSettings(
        name="w", queues={"email": 5}, lanes=3, async_jobs=7, lease=4, drain=3, grace=2, max_jobs=9,
        max_rss=10**9, burst=True, reload=True, server_id="web-2", gate_cpu=65, gate_memory=66,
        gate_pressure=67, gate_io=68, gate_rise=0.5, gate_fall=0.2,
    )  # fmt: skip
