"""Literal values of secret arguments are in no text that leaves the process of a job."""

import contextlib
import io
import json
import sys
from typing import Any

import pytest
from worker.place import Place, until

from limpet import App, State
from limpet.cli.main import main

WORD, QUOTED = "hunter2-hunter2", 'it\'s "all" \\ hidden\n\tsecond-line é@/?&'
PIN, INNER, SHORT = 48151623, "inner-s3cret", "abc"
SOURCE = """
import json, logging, threading, asyncio
from typing import Annotated, Any
from urllib.parse import quote, quote_plus
from pydantic import BaseModel, SecretStr
from limpet import App, Context, Secret, Retry, Unrecoverable

app = App("sqlite://")

class Login(BaseModel):
    user: str
    password: SecretStr
    more: Annotated[dict[str, Any], Secret]

def texts(login, word, quoted, pin):
    inner = login.password.get_secret_value()
    values = [inner, word, quoted, pin, *login.more["deep"]]
    for each in values:
        text = str(each)
        yield f"as it is <{text}>"
        yield f"repr {each!r} {[each]!r} { {'a': each}!r}"
        yield f"json {json.dumps(each)} {json.dumps(each, ensure_ascii=False)}"
        yield f"url {quote(text)} {quote(text, safe='')} {quote_plus(text)} {text.encode()!r}"
    yield "cut " + "x" * (16 * 1024 - 520) + word * 40
    yield "cut " + "x" * 480 + word * 40

def says(ctx, *secrets):
    for text in texts(*secrets):
        ctx.log.warning("said %s", text)
        logging.getLogger("shop").error("logged %s", text)
        ctx.progress(1, 2, text)
    threading.Thread(target=lambda: ctx.log.info("thread %s", secrets[1])).start()
    raw = threading.Event()
    import _thread
    _thread.start_new_thread(lambda: (ctx.log.info("raw %s", secrets[1]), raw.set()), ())
    raw.wait(5)

def raises(*secrets):
    try:
        raise KeyError(secrets[2])
    except KeyError as error:
        error.add_note("noted " + secrets[1])
        raise ValueError(" | ".join(texts(*secrets))) from error

Word, Pin = Annotated[str, Secret], Annotated[int, Secret]

@app.task(retry=Retry(attempts=2, delay="10ms"))
def fails(ctx: Context, login: Login, word: Word, quoted: Word, pin: Pin, short: Word) -> None:
    says(ctx, login, word, quoted, pin)
    raises(login, word, quoted, pin)

@app.task(retry=Retry(attempts=2, delay="10ms"))
async def fails_async(
    ctx: Context, login: Login, word: Word, quoted: Word, pin: Pin, short: Word
) -> None:
    says(ctx, login, word, quoted, pin)
    await asyncio.to_thread(ctx.log.info, "pool %s", word)
    raises(login, word, quoted, pin)

@app.task(version=2)
def upgraded(word: Word) -> None: ...

@upgraded.upgrade(from_version=1)
def step(args):
    raise RuntimeError("cannot upgrade " + args["word"])

@app.task
def returns(ctx: Context) -> Annotated[str, Secret]:
    ctx.log.info("will return result-s3cret")
    return "result-s3cret"
"""


def everything(place: Place, job: str) -> str:
    """All that anybody can read of a job, and of its worker."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for words in (("job", "show", job), ("job", "show", job, "--json"), ("jobs", "--json"),
                      ("top", "--json")):  # fmt: skip
            assert main([*words, "--url", place.url]) == 0
    found = place.job(job)
    stored: list[Any] = [found.error, found.progress, *place.store.events(job)]
    stored += [event.cause.record() for event in place.store.events(job) if event.cause]
    stored += place.store.log(job)
    return "\n".join([printed.getvalue(), *map(repr, stored), place.last.text])


def assert_masked(text: str, *secrets: str) -> None:
    for value in secrets:
        for form in {value, repr(value)[1:-1], json.dumps(value)[1:-1]}:
            at = text.find(form)
            assert at < 0, f"{form!r} in …{text[max(0, at - 80) : at + 80]!r}…"


@pytest.mark.parametrize(("task", "style"), [("fails", "plain"), ("fails_async", "json")])
def test_values_of_secrets_are_masked_before_they_leave_the_job(
    place: Place, task: str, style: str
) -> None:
    target = place.module(SOURCE)
    worker = place.begin_worker("--log", style, "--lanes", "1", target=target)
    until(lambda: "is ready" in worker.text, said="the worker is ready")
    sys.path.insert(0, str(place.folder))
    try:
        from own import app as own  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    shop: App = own
    shop.registry.move_to(place.url)
    more = {"deep": [INNER, 1234567]}
    login = sys.modules.pop("own").Login(user="ann", password="p4ssw0rd", more=more)
    job = shop.find(task).enqueue(login, WORD, QUOTED, PIN, SHORT)
    place.until_state(job, State.FAILED)
    until(lambda: any("thread" in line.message for line in place.log(job)))
    text = everything(place, job.id)
    assert_masked(text, "p4ssw0rd", WORD, QUOTED, INNER, str(PIN), "1234567", "second-line")
    assert WORD[:8] not in text  # nor half of it, where a text was cut
    assert "ann" in text
    lines = [line.message for line in place.log(job)]
    assert "said as it is <***>" in lines
    assert "thread ***" in lines
    assert "raw ***" in lines
    error = place.job(job).error
    assert error is not None
    assert error.sentence().startswith("ValueError: as it is <***>")
    assert "KeyError: ***" in error.record()["traceback"].replace("'", "").replace('"', "")
    shop.close()


def test_values_of_secrets_are_masked_where_a_job_is_put_aside_or_returns_them(
    place: Place,
) -> None:
    target = place.module(SOURCE)
    place.worker("--lanes", "1", target=target)
    aside = place.hand_in("upgraded", json.dumps({"word": WORD}), secrets=("word",))
    place.until_state(aside, State.QUARANTINED)
    returned = place.hand_in("returns", "{}")
    place.until_state(returned, State.SUCCEEDED)
    until(lambda: place.log(returned))
    assert_masked(everything(place, aside.id), WORD)
    # Nobody knew that it would be a secret when it was logged; whoever shows the job does.
    shown = everything(place, returned.id).partition("LogLine(")[0]
    assert_masked(shown, "result-s3cret")
    assert "will return ***" in shown
