"""What cannot work is refused with one sentence and exit code 2, and leaves nothing running."""

import re
import time

import pytest
from machine import crowded
from worker.place import Place

_APP = "from limpet import App\napp = App()\n"

WRONG_APPS = {
    "no such module": (None, "nowhere:app", "no module 'nowhere'"),
    "no such name": ("other = 1\n", "own:app", "'app' in own is nothing"),
    "not an app": ("app = 5\n", "own:app", "is a int, not a limpet.App"),
    "no colon": (_APP, "own", "write module:app"),
    "raises on import": ("1 / 0\n", "own:app", "ZeroDivisionError"),
    "needs a module": ("import not_there\n", "own:app", "'not_there'"),
    "wrong syntax": ("def (:\n", "own:app", "SyntaxError"),
    "leaves on import": ("import sys\nsys.exit('set SHOP_KEY first')\n", "own:app", "SHOP_KEY"),
    "interrupts on import": ("raise KeyboardInterrupt\n", "own:app", "KeyboardInterrupt"),
    "says it in many lines": ("raise ValueError('one\\ntwo\\nthree')\n", "own:app", "one"),
    "behind main": (f"if __name__ == '__main__':\n    {_APP.splitlines()[0]}\n    app = App()\n",
                    "own:app", "'app' in own is nothing"),
    "wrong option": ("from limpet import App\napp = App()\n"
                     "@app.task(timeout='soon')\ndef f(): ...\n", "own:app", "soon"),
    "in memory": ("from limpet import App\napp = App('sqlite://')\n", "own:app", "in memory"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_APPS)
def test_an_app_that_cannot_be_used_is_refused(place: Place, case: str) -> None:
    source, target, words = WRONG_APPS[case]
    if source is not None:
        place.module(source)
    worker = place.begin_worker(
        "--log", "plain", target=target, url=None if case == "in memory" else ""
    )
    before = time.monotonic()
    assert worker.wait() == 2
    assert time.monotonic() - before < 10 * crowded()
    assert_one_sentence(worker.text, words)


WRONG_WORDS = {
    "no number": (("--lanes", "many"), "lanes"),
    "negative": (("--async-jobs", "-1"), "async"),
    "nothing at all": (("--lanes", "0", "--async-jobs", "0"), "could run nothing"),
    "no such option": (("--fast",), "--fast"),
    "wrong time": (("--lease", "soon"), "lease"),
    "a short lease": (("--lease", "100ms"), "lease"),
    "wrong queue": (("-q", "a b=1"), "a b"),
    "a queue of none": (("-q", "a=0"), "a"),
    "queue twice": (("-q", "a=1", "-q", "a=2"), "a"),
    "wrong size": (("--max-rss", "lots"), "max"),
    "a small size": (("--max-rss", "1MB"), "max"),
}


@pytest.mark.parametrize("case", WRONG_WORDS)
def test_a_wrong_option_is_refused(place: Place, case: str) -> None:
    words, said = WRONG_WORDS[case]
    worker = place.begin_worker(*words)
    assert worker.wait() == 2
    assert_one_sentence(worker.text, said, usage=case == "no such option")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "in memory"),
        ("mysql://there/db", "mysql"),
        ("sqlite:////nowhere/at/all/jobs.db", "/nowhere/at/all"),
    ],
    ids=["in memory", "unknown", "no such folder"],
)
def test_a_store_that_cannot_be_used_is_refused(place: Place, url: str, said: str) -> None:
    worker = place.begin_worker("--log", "plain", url=url)
    assert worker.wait() == 2
    assert_one_sentence(worker.text, said)


def test_a_file_that_is_no_database_is_refused(place: Place) -> None:
    (place.folder / "text.db").write_text("this is not a database, whatever its name is\n" * 100)
    worker = place.begin_worker("--log", "plain", url=f"sqlite:///{place.folder}/text.db")
    assert worker.wait() == 2
    assert_one_sentence(worker.text, "text.db")


def assert_one_sentence(text: str, words: str, *, usage: bool = False) -> None:
    assert "Traceback" not in text
    assert words in text
    lines = [line for line in text.splitlines() if line.strip()]
    if not usage:
        assert len(lines) == 1, text
        assert re.fullmatch(r"(limpet|\d\d:\d\d:\d\d)[^ ]* .+", lines[0]), text
