"""One word for one thing (docs/glossary.md), as far as a machine can check."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import limpet

SOURCE = Path(limpet.__file__).parent
GLOSSARY = SOURCE.parents[1] / "docs" / "glossary.md"
FILES = sorted(SOURCE.rglob("*.py"))
BACKENDS = {"sqlite", "postgres", "redis"}
# Class names that were metaphors, and the words of the field that they became.
GONE = {
    "Asker": "RoomWaiter, TurnRequest",
    "Crew": "Executors",
    "Desk": "RequestServer",
    "Errand": "Uninterrupted",
    "Furniture": "store settings",
    "Gatehouse": "AppPermits",
    "Here": "ThisHost",
    "Outcome": "Ending",
    "Post": "MonitorLock",
    "Told": "TimelineEntry",
    "Voice": "log output",
}
# Words that meant two to nine things each, as parts of names, and what to write instead.
BANNED = {
    "told": "entries, answer, reported, acknowledged",
    "tell": "report, notify, send",
    "tells": "report, notify, send",
    "said": "row, answer, report, settings",
    "say": "print, send, translate, encode",
    "says": "print, send, translate, encode",
    "heard": "received, last_received",
    "hear": "receive, read",
    "hears": "receive, read",
    "asker": "the noun of who requests",
    "crew": "executors",
    "desk": "request_server",
    "errand": "uninterrupted",
    "furniture": "store_settings",
    "goodbye": "deregister",
    "mend": "repair",
    "patience": "timeout, retry_for, reserve_after",
}
# Options and keys that users write or read.
PUBLIC = {"patience", "store_patience", "heard_seconds_ago"}
# A field of the rules of a breaker, as the stores keep them.
STORED = {"window"}
# Words that belong to one part of the house.
AT_HOME = {
    "room": (
        r"gate/|domain/(permit|assessment)|ops/(gate|hosts|host_answer)|cli/(gate|host_\w+)"
        r"|storage/\w+/(gate|gating|permits|admission)|worker/supervisor/(claimer|gatekeeper)"
    ),
    "turn": r"storage/|ops/(why|reason)",
    "permit": (
        r"__init__|app/|gate/|domain/|ops/|cli/(gate|host_\w+)|storage/"
        r"|worker/supervisor/(claimer|gatekeeper|pressure_relief)"
    ),
}
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What a duration is called; a bare number of one says its unit.
DURATIONS = {
    "age", "backoff", "delay", "duration", "elapsed", "grace", "interval", "lag", "lifetime",
    "pause", "patience", "period", "spent", "timeout", "took", "ttl", "wait", "window",
}  # fmt: skip


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def words_of(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def names_in(path: Path) -> set[str]:
    """Every identifier of a file, its own name included."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME} | {path.stem}


def classes() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCE))
    return found


def bare_numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names and lines of the arguments, fields, constants and answers that are plain numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and is_number(node.annotation):
            yield node.arg, node.lineno
        elif isinstance(node, ast.AnnAssign) and is_number(node.annotation):
            yield ast.unparse(node.target).rpartition(".")[2], node.lineno
        elif isinstance(node, ast.Assign) and is_number_literal(node.value):
            for target in node.targets:
                yield ast.unparse(target).rpartition(".")[2], node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_number(node.returns):
            yield node.name, node.lineno


def is_number(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.BinOp):
        return is_number(annotation.left) or is_number(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "float")


def is_number_literal(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def test_a_class_name_stands_for_one_thing() -> None:
    """But for what each store has of its own kind, under the same name and in the same file."""
    for name, paths in classes().items():
        of_stores = {path.parts[1] for path in paths} <= BACKENDS if len(paths) > 1 else True
        assert of_stores, (name, [str(path) for path in paths])
        assert len({path.name for path in paths}) == 1, (name, [str(path) for path in paths])


def test_metaphors_that_are_gone_do_not_come_back() -> None:
    assert {name: GONE[name] for name in GONE.keys() & classes().keys()} == {}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_name_has_a_word_of_many_meanings(path: Path) -> None:
    found = {
        name: f"write {BANNED[word]}"
        for name in names_in(path)
        if name.lower() not in PUBLIC
        for word in words_of(name)
        if word in BANNED
    }
    assert found == {}


@pytest.mark.parametrize("word", AT_HOME)
def test_a_word_of_one_part_is_used_in_that_part(word: str) -> None:
    """Room is what a host has left, a turn is a key's, a permit is the gate's."""
    elsewhere = {
        relative(path): sorted(names)
        for path in FILES
        if not re.match(AT_HOME[word], relative(path))
        and (names := {name for name in names_in(path) if {word, f"{word}s"} & {*words_of(name)}})
    }
    assert elsewhere == {}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_bare_number_that_is_a_duration_names_its_unit(path: Path) -> None:
    found = {
        f"{name}, line {line}"
        for name, line in bare_numbers(ast.parse(path.read_text()))
        if name not in STORED and words_of(name)[-1:] and words_of(name)[-1] in DURATIONS
    }
    assert found == set()


def test_the_glossary_lists_the_words_that_are_not_used() -> None:
    section = GLOSSARY.read_text().partition("## Not used in names")[2]
    rows = re.findall(r"^\| ([\w, ]+) \|", section, re.MULTILINE)
    assert {word for row in rows[1:] for word in row.split(", ")} == BANNED.keys()
