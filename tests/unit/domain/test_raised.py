"""What the timeline keeps of an exception."""

import contextlib
from pathlib import Path
from typing import Any

import limpet
from limpet import App, Unrecoverable
from limpet.domain.cause import Raised, cause_of
from limpet.domain.raised import LONGEST_MESSAGE, LONGEST_TRACEBACK, raised


def caught(function: Any) -> Raised:
    try:
        function()
    except BaseException as error:
        return raised(error)
    raise AssertionError("nothing was raised")


class OddError(Exception):
    class Deep(Exception):
        pass

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_the_type_is_named_as_a_person_would_import_it() -> None:
    assert raised(ValueError("x")).type == "ValueError"
    assert raised(OddError.Deep("x")).type.endswith("test_raised.OddError.Deep")
    assert raised(Unrecoverable("x")).type == "Unrecoverable"
    assert raised(ValueError("x")).sentence() == "ValueError: x"


def through_limpet(function: Any) -> Any:
    """Call it from a file that looks like one of Limpet's own, and through the standard library."""
    name = str(Path(limpet.__file__).parent / "worker" / "made_up.py")
    code = "def call(function, around):\n with around:\n  function()\n"
    space: dict[str, Any] = {}
    exec(compile(code, name, "exec"), space)

    @contextlib.contextmanager
    def around() -> Any:
        yield

    return lambda: space["call"](function, around())


def test_the_traceback_starts_at_the_users_code() -> None:
    def task() -> None:
        raise ValueError("x") from KeyError("y")

    error = caught(through_limpet(task))
    frames = [line for line in error.traceback.splitlines() if line.startswith("  File")]
    assert "made_up.py" not in error.traceback
    assert frames[-1].endswith("in task")
    assert "KeyError: 'y'" in error.traceback
    assert error.traceback.endswith("ValueError: x\n")


def test_a_call_back_into_limpet_stays_in_the_traceback(tmp_path: Path) -> None:
    def task() -> None:
        App("nonsense")

    error = caught(through_limpet(task))
    assert "in task" in error.traceback
    assert "registry.py" in error.traceback


def test_a_long_error_is_cut_in_the_middle() -> None:
    def even(n: int) -> None:
        odd(n)

    def odd(n: int) -> None:
        if n == 0:
            raise ValueError("a" * 10_000 + "the end")
        even(n - 1)

    error = caught(lambda: even(200))
    assert len(error.message) < LONGEST_MESSAGE + 100
    assert len(error.traceback) < LONGEST_TRACEBACK + 100
    assert error.message.endswith("the end")
    assert "characters left out" in error.traceback
    assert error.traceback.startswith("Traceback")


def test_an_error_without_printable_words_is_still_kept() -> None:
    error = caught(lambda: (_ for _ in ()).throw(OddError()))
    assert "RuntimeError" in error.message
    half = raised(ValueError("\ud800"))
    half.message.encode()
    half.traceback.encode()


def test_a_cause_survives_the_timeline() -> None:
    error = caught(lambda: int("x"))
    assert cause_of(error.record()) == error
