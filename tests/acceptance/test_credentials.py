"""The password of a store's URL is in nothing that somebody else may read."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import redis
from servers import shared_url

from limpet.cli import target
from limpet.cli.main import main
from limpet.domain.errors import LimpetError
from limpet.host.arguments import without_credentials
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

USER, PASSWORD = "limpet-words", "p@ss:w/rd%#?é s3cret"
FORMS = {PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD), "s3cret"}
MARK = "LIMPET_TEST_MARK"
SHOP = """
from limpet import App, Retry
app = App("sqlite://")

@app.task(retry=Retry(attempts=1))
def fails() -> None:
    raise ValueError("no")
"""


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A store of the test's own, with a user and a password in its URL."""
    place = urlsplit(shared_url(request.param))
    space = f"words-{uuid.uuid4().hex[:8]}"
    if request.param == "postgres":
        # The server trusts who comes from here, and takes any password.
        who = f"{place.username or 'postgres'}:{quote(PASSWORD, safe='')}"
        host = place.netloc.rpartition("@")[2]
        yield f"postgresql://{who}@{host}{place.path}?schema={space.replace('-', '_')}"
        return
    with redis.Redis.from_url(shared_url("redis")) as client:
        client.acl_setuser(
            USER, enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], channels=["*"],
            commands=["+@all"],
        )  # fmt: skip
        who = f"{USER}:{quote(PASSWORD, safe='')}"
        yield f"redis://{who}@{place.netloc}{place.path}?namespace={space}"
        client.acl_deluser(USER)


def assert_none(text: str) -> None:
    for form in FORMS:
        at = text.find(form)
        assert at < 0, f"{form!r} in …{text[max(0, at - 100) : at + 60]!r}…"


def command_lines(mark: str) -> list[str]:
    """What `ps` shows of the processes of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_the_password_of_a_store_is_in_nothing_that_others_may_read(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    mark = uuid.uuid4().hex
    stores: list[Store] = []

    def opened(address: str) -> Store:
        stores.append(open_store(address))
        return stores[-1]

    monkeypatch.setattr(target, "open_store", opened)
    (tmp_path / "credential_shop.py").write_text(SHOP)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}
    environment |= {MARK: mark, "PYTHONPATH": str(tmp_path)}

    def start(*words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "limpet.cli.main", *words],
            cwd=tmp_path, env=environment, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def limpet(*words: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                main(words)
            except LimpetError as error:  # of --debug
                traceback.print_exception(error)
        # A command leaves its connections to the end of its process, which is not here.
        while stores:
            stores.pop().close()
        if (shop := sys.modules.pop("credential_shop", None)) is not None:
            shop.app.close()
        assert_none(printed.getvalue())
        return printed.getvalue()

    limpet("migrate", "--url", url)
    job = limpet("enqueue", "fails", "--app", "credential_shop:app", "--url", url).split()[0]
    watching = start("gate", "watch", "--url", url)
    working = start("worker", "credential_shop:app", "--verbose", "--debug", "--url", url)
    try:
        for process, word in ((working, "failed and will not"), (watching, "ready")):
            assert process.stdout is not None
            for line in process.stdout:
                assert_none(line)
                if word in line:
                    break
        lines = command_lines(mark)
        assert len(lines) >= 5, lines  # the watch, the guardian, and what is below it
        for line in lines:
            assert_none(line)
        assert "sqlite" not in " ".join(lines)
    finally:
        for process in (watching, working):
            process.terminate()
            assert_none(process.communicate(timeout=60)[0])
    for words in (
        ("job", "show", job), ("job", "show", job, "--json"), ("jobs", "--json"), ("top",),
        ("top", "--json"), ("workers", "--all", "--json"), ("queues",), ("fsck",), ("hosts",),
        ("job", "show", "01k7o535672h82dktv2pqjl65e", "--debug"),
    ):  # fmt: skip
        limpet(*words, "--url", url)
    wrong = url.replace("@", "@nowhere.invalid/", 1)
    host = urlsplit(url).netloc.rpartition("@")[2]
    for bad in (
        wrong,
        url.replace(host, "127.0.0.1:1"),
        url + "&nonsense=1",
        url.replace("%40", "@"),
    ):
        for debug in ((), ("--debug",)):
            assert limpet("jobs", *debug, "--url", bad)


def test_words_of_a_command_line_lose_their_credentials_and_nothing_else() -> None:
    words = b"limpet\0jobs\0--url=redis://a:b@h:1/0?sentinel_password=xy&timeout=2\0--limit\x005\0"
    told = without_credentials(words)
    assert len(told) == len(words)
    assert told == (
        b"limpet\0jobs\0--url=redis://***@h:1/0?sentinel_password=**&timeout=2\0--limit\x005\0"
    )
    move = b"move\0sqlite:///jobs.db\0postgresql://u:p%40q@h/d\0"
    assert without_credentials(move) == b"move\0sqlite:///jobs.db\0postgresql://*******@h/d\0"
