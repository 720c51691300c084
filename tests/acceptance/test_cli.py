"""The command line as a person types it."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from acceptance.command import Run

from limpet import App
from limpet.domain.cause import Raised
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Fail
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.registry import open_store


def test_a_job_is_enqueued_looked_at_cancelled_and_retried(limpet: Run) -> None:
    made = limpet("enqueue", "send", '{"to": "a@b.c"}', "--json")
    assert made.returncode == 0, made.stderr
    job = json.loads(made.stdout)
    wanted = "id task queue state failures orphans strikes token progress result error timeline"
    assert set(wanted.split()) <= set(job)
    assert (job["state"], job["queue"]) == ("ready", "email")
    assert set(job["timeline"][0]) == {"at", "event", "session", "token", "cause"}

    listed = json.loads(limpet("jobs", "--json").stdout)
    assert [each["id"] for each in listed["jobs"]] == [job["id"]]
    assert job["id"] in limpet("jobs", "--state", "ready", "--queue", "email").stdout
    assert limpet("jobs", "--state", "failed").stdout == "no jobs\n"

    assert "is cancelled" in limpet("job", "cancel", job["id"], "--reason", "typo").stdout
    again = limpet("job", "cancel", job["id"])
    assert again.returncode == 0
    assert "round 2" in limpet("job", "retry", job["id"]).stdout
    shown = limpet("job", "show", job["id"]).stdout
    assert "cancelled" in shown
    assert "typo" in shown
    assert "reopened" in shown
    refused = limpet("job", "retry", job["id"])
    assert refused.returncode == 1
    assert "only a finished job can be retried" in refused.stderr


def test_a_unique_job_is_enqueued_once_and_jobs_of_a_key_wait(limpet: Run) -> None:
    first = limpet("enqueue", "add", '{"a": 1, "b": 2}', "--unique", "sum", "--key", "k").stdout
    again = limpet("enqueue", "add", '{"a": 1, "b": 2}', "--unique", "sum", "--key", "k")
    assert again.returncode == 0
    assert again.stdout.split()[0] == first.split()[0]
    assert "it was there before, and nothing was handed in" in again.stdout
    assert "is blocked" in limpet("enqueue", "add", '{"a": 1, "b": 2}', "--key", "k").stdout
    assert "key is ''" in limpet("enqueue", "add", '{"a": 1, "b": 2}', "--key", "").stderr


def test_pages_are_followed_by_their_cursor(limpet: Run) -> None:
    for n in range(5):
        limpet("enqueue", "add", json.dumps({"a": n, "b": n}))
    first = json.loads(limpet("jobs", "--json", "--limit", "3").stdout)
    rest = json.loads(limpet("jobs", "--json", "--cursor", first["cursor"]).stdout)
    numbers = [job["args"]["a"] for job in first["jobs"] + rest["jobs"]]
    assert numbers == [4, 3, 2, 1, 0]
    assert rest["cursor"] is None
    assert "more: --cursor" in limpet("jobs", "--limit", "3").stdout


def test_queues_and_workers_are_tables(limpet: Run, tmp_path: Path) -> None:
    assert limpet("migrate").returncode == 0
    assert limpet("queues").stdout == "no queues\n"
    assert limpet("workers").stdout == "no workers\n"
    limpet("enqueue", "add", '{"a": 1, "b": 2}')
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    store = app.client.store
    session = app.client.ids.new()
    known = store.register(
        NewSession(session, SessionKind.WORKER, "w1", "here", 42, tasks=frozenset({"add"}))
    )
    want = Want((Pool(known.tasks, {ANY_QUEUE: 1}, 1),))
    lease = store.exchange(session, 1, (), want).claimed[0].lease
    head, row = limpet("workers").stdout.splitlines()
    assert head.split()[:4] == ["SESSION", "NAME", "HOST", "PID"]
    assert row.split()[:6] == [session, "w1", "here", "42", "live", "1"]
    store.exchange(session, 2, [Fail(lease, Raised("ValueError", "two\nlines"))])
    assert json.loads(limpet("queues", "--json").stdout)[0]["failed"] == 1
    listed = limpet("jobs").stdout
    assert r"ValueError: two\nlines" in listed
    assert json.loads(limpet("workers", "--json").stdout)[0]["session"] == session
    app.close()


def test_secrets_are_never_printed(limpet: Run) -> None:
    args = json.dumps({"to": "a", "template": {"name": "n", "token": "hunter2"}})
    made = limpet("enqueue", "send", args, "--json")
    job = json.loads(made.stdout)["id"]
    outputs = [made, limpet("job", "show", job), limpet("jobs", "--json")]
    assert all("hunter2" not in each.stdout + each.stderr for each in outputs)
    wrong = json.dumps({"to": "a", "template": {"token": "hunter2"}})
    assert "hunter2" not in limpet("enqueue", "send", wrong).stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("enqueue", "sned", "{}"), 2, "there is no task 'sned'; this app has: add, send."),
        (("enqueue", "add", '{"a": 1}'), 2, "missing a required argument: 'b'"),
        (("enqueue", "add", '{"a": 1, "b": "x"}'), 2, "b: Input should be a valid integer"),
        (("enqueue", "add", "[1, 2]"), 2, "not an object"),
        (("enqueue", "add", "{"), 2, "not JSON"),
        (("enqueue", "add", "[" * 100_000), 2, "nested too deeply"),
        (("enqueue", "add", '{"a": ' + "9" * 5000 + ', "b": 1}'), 2, "not JSON"),
        (("enqueue", "send", '{"to": "x", "self": 1}'), 2, "unexpected keyword argument 'self'"),
        (("enqueue", "send", '{"to": "x", "within": null}'), 2, "keyword argument 'within'"),
        (("jobs", "--queue", "\udcff"), 2, "queue '"),
        (("enqueue", "add", '{"a": 1, "b": 2}', "--delay", "soon"), 2, "delay is 'soon'"),
        (("job", "show", "abc"), 2, "is not the id of a job"),
        (("job", "show", "0" * 26), 1, "there is no job"),
        (("job", "cancel", "0" * 26), 1, "there is no job"),
        (("job", "retry", "0" * 26), 1, "there is no job"),
        (("jobs", "--cursor", "x"), 2, "cursor 'x'"),
        (("jobs", "--limit", "0"), 2, "from 1 to 1000"),
        (("jobs", "--state", "lost"), 2, "invalid choice"),
        (("jobs", "--url", "mysql://x"), 2, "knows sqlite://"),
        (("jobs", "--url", "sqlite://jobs.db"), 2, "sqlite:///jobs.db"),
        (("jobs", "--url", "sqlite:///jobs.db?sync=1"), 2, "unknown setting sync"),
        (("jobs", "--url", "sqlite:///no/where.db"), 1, "there is no store"),
        (("migrate", "--url", "sqlite:///no/where.db"), 1, "does not exist"),
        (("jobs", "--url", "sqlite:///shop.py"), 1, "is not a SQLite database"),
        (("fly",), 2, "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(
    limpet: Run, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/jobs.db")) as store:
        store.migrate()
        given = limpet(*words)
        assert given.returncode == code
        assert said in given.stderr
        assert "Traceback" not in given.stderr
        assert list(store.queues()) == []


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop", "write module:app"),
        ("shop:other", "is nothing, not a limpet.App"),
        ("shop:not_an_app", "is a int, not a limpet.App"),
        ("broken:app", "raised RuntimeError: no luck"),
        ("needy:app", "needs the module 'no_such_thing'"),
        (None, "Pass --app module:app"),
    ],
)
def test_an_app_that_cannot_be_had_is_said(
    limpet: Run, tmp_path: Path, app: str | None, said: str
) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no luck')")
    (tmp_path / "needy.py").write_text("import no_such_thing")
    given = limpet("enqueue", "add", "{}", app=app)
    assert (given.returncode, said in given.stderr) == (2, True), given.stderr
    assert "Traceback" not in given.stderr
    assert "Traceback" in limpet("enqueue", "add", "{}", "--debug", app=app).stderr


def test_a_payload_over_the_limit_is_refused(limpet: Run) -> None:
    assert limpet("migrate").returncode == 0
    large = json.dumps({"to": "x" * 1_048_576})
    given = limpet("enqueue", "send", "-", input=large)
    assert given.returncode == 2
    assert "the limit is 1048576" in given.stderr
    assert limpet("queues").stdout == "no queues\n"
    assert limpet("enqueue", "send", "-", input=json.dumps({"to": "x" * 200_000})).returncode == 0
    small = limpet("enqueue", "send", '{"to": "longer than ten"}', LIMPET_PAYLOAD_LIMIT="10")
    assert "the limit is 10." in small.stderr


def test_a_reason_that_is_no_text_is_kept_as_far_as_it_is(limpet: Run) -> None:
    job = json.loads(limpet("enqueue", "add", '{"a": 1, "b": 2}', "--json").stdout)["id"]
    assert limpet("job", "cancel", job, "--reason", "caf\udce9").returncode == 0
    assert "caf?" in limpet("job", "show", job).stdout


def test_a_current_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone}; cd {gone}; rmdir {gone}; {sys.executable} -P -m limpet.cli.main jobs"
    given = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (given.returncode, "current folder" in given.stderr) == (2, True), given.stderr


def test_fsck_is_well_and_names_what_is_broken(limpet: Run, tmp_path: Path) -> None:
    limpet("enqueue", "add", '{"a": 1, "b": 2}')
    assert limpet("fsck").returncode == 0
    raw = apsw.Connection(str(tmp_path / "jobs.db"))
    raw.execute("DELETE FROM limpet_payload")
    raw.close()
    broken = limpet("fsck")
    assert broken.returncode == 1
    assert "job_has_payload: broken 1 time," in broken.stdout
    assert json.loads(limpet("fsck", "--json").stdout)[0]["invariant"] == "job_has_payload"
    with (tmp_path / "jobs.db").open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(b"\xff" * 4096 * 8)
    broken = limpet("fsck")
    assert (broken.returncode, "file_is_sound" in broken.stdout) == (1, True), broken


def test_settings_come_from_argument_variable_and_file_in_that_order(
    limpet: Run, tmp_path: Path
) -> None:
    for name in ("one", "two", "three"):
        assert limpet("migrate", "--url", f"sqlite:///{name}.db", app=None).returncode == 0
    (tmp_path / "limpet.toml").write_text('url = "sqlite:///one.db"\n')

    def where(*words: str, **environ: str) -> str:
        return str(
            json.loads(limpet("migrate", "--json", *words, app=None, **environ).stdout)["url"]
        )

    assert where().endswith("one.db")
    assert where(LIMPET_URL="sqlite:///two.db").endswith("two.db")
    assert where("--url", "sqlite:///three.db", LIMPET_URL="sqlite:///two.db").endswith("three.db")
    # The URL in the app's own code is an argument too, for every command alike.
    (tmp_path / "limpet.toml").write_text('url = "sqlite:///one.db"\napp = "shop:app"\n')
    assert limpet("enqueue", "add", '{"a": 1, "b": 2}', app=None).returncode == 0
    assert where().endswith("jobs.db")
    assert "default" in limpet("queues", app=None, LIMPET_URL="sqlite:///two.db").stdout
    (tmp_path / "limpet.toml").write_text("colour = 1\n")
    refused = limpet("jobs", app=None)
    assert refused.returncode == 2
    assert "unknown setting colour" in refused.stderr


def test_a_reader_that_goes_away_is_no_error(limpet: Run, tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    work = app.task(name="work")(lambda: None)
    app.enqueue_many([work.call() for _ in range(1000)])
    app.close()
    command = f"{sys.executable} -m limpet.cli.main jobs --limit 1000 --url sqlite:///jobs.db"
    given = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert given.stderr == ""
    assert given.stdout.startswith("ID ")
