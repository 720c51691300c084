"""What a terminal would obey, or a reader take for the end of a line, is written out."""

import json
import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.printable import (
    printable,
    printable_json,
    printable_lines,
)
from limpet.log.output import JSON, PLAIN, PRETTY, formatter_of

TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def is_obeyed(letter: str) -> bool:
    turns = unicodedata.bidirectional(letter) in TURNING or letter in "\u200e\u200f\u061c"
    return turns or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


EVERY = "".join(chr(code) for code in range(0x110000))


def test_no_character_that_is_obeyed_is_left_of_all_that_there_are() -> None:
    assert [letter for letter in printable(EVERY) if is_obeyed(letter)] == []
    assert len(printable(EVERY).splitlines()) == 1


def test_letters_of_every_language_stay_as_they_are() -> None:
    for text in ("grüße", "文件", "مرحبا", "שלום", "👩‍👩‍👧", "می‌خواهم", r"C:\new"):
        assert printable(text) == text
    assert printable("\x1b[2J\x00\x85\u2028\u202e\n") == r"\x1b[2J\x00\x85\u2028\u202e\n"
    assert printable(printable(EVERY)) == printable(EVERY)


def test_a_text_is_cut_into_lines_at_line_feeds_alone() -> None:
    assert printable_lines("one\n  two\x1b\n") == ["one", "  two\\x1b"]
    assert printable_lines("") == [""]
    assert printable_lines("a\rb\u2028c") == [r"a\rb\u2028c"]


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_json_reads_back_equal_and_is_not_obeyed(text: str, more: dict[str, str]) -> None:
    value = {"text": text, "more": [more], "all": "\x7f\x9b\u202e\ud800"}
    for indent in (None, 2):
        told = printable_json(value, indent)
        assert json.loads(told) == value
        assert [letter for letter in told if letter != "\n" and is_obeyed(letter)] == []


@pytest.mark.parametrize("style", [PLAIN, PRETTY, JSON])
def test_no_line_of_a_text_begins_a_line_of_the_log(style: str) -> None:
    forged = "12:00:00.000 ● stopped; 5 jobs were handed back"
    text = f"it said\n{forged}\r{forged}\u2028{forged}\x85{forged}\x1b[2J"
    try:
        raise ValueError(text)
    except ValueError as error:
        record = logging.LogRecord(
            "limpet", logging.WARNING, "f", 1, text, None, (type(error), error, None)
        )
    record.job = f"id\n{forged}"
    told = formatter_of(style).format(record)
    first, *rest = told.splitlines()
    assert "it said" in first
    assert [line for line in rest if not line.startswith("    | ")] == []
    colours = {"\033"} if style == PRETTY else set()
    assert {letter for letter in told if is_obeyed(letter)} <= {"\n"} | colours


@pytest.mark.parametrize("name", ["shop", "limpet.job", "limpet", ""])
@pytest.mark.parametrize("style", [PLAIN, PRETTY, JSON])
def test_a_line_of_a_job_names_its_logger_whatever_else_it_has(style: str, name: str) -> None:
    """As the worker's own lines do not."""
    record = logging.LogRecord(name, logging.INFO, "f", 1, "worker w1 is ready", None, None)
    record.action = "worker_ready"
    record.task = object()  # what a job gives its records need be no text
    for of_jobs in (True, name == "limpet"):
        told = formatter_of(style, of_jobs=of_jobs).format(record)
        if style == JSON:
            line = json.loads(told)
            assert line["logger"] == name
            assert ("action" in line) == (name == "limpet")
        else:
            assert f"{name} | worker w1 is ready" in told


@pytest.mark.parametrize("style", [PLAIN, PRETTY, JSON])
def test_a_line_of_the_worker_names_no_logger(style: str) -> None:
    record = logging.LogRecord("limpet", logging.INFO, "f", 1, "worker w1 is ready", None, None)
    record.action = "worker_ready"
    told = formatter_of(style).format(record)
    if style == JSON:
        assert {"action", "logger"} & json.loads(told).keys() == {"action"}
    else:
        assert "limpet |" not in told
