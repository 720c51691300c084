"""One word for one thing (docs/glossary.md), as far as a machine can tell."""

import ast
from collections import defaultdict
from pathlib import Path

import limpet

SOURCE = Path(limpet.__file__).parent
BACKENDS = {"sqlite", "postgres", "redis"}
# Metaphors that were, and the words of the field that they became.
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


def classes() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCE))
    return found


def test_a_class_name_stands_for_one_thing() -> None:
    """But for what each store has of its own kind, under the same name and in the same file."""
    for name, paths in classes().items():
        of_stores = {path.parts[1] for path in paths} <= BACKENDS if len(paths) > 1 else True
        assert of_stores, (name, [str(path) for path in paths])
        assert len({path.name for path in paths}) == 1, (name, [str(path) for path in paths])


def test_metaphors_that_are_gone_do_not_come_back() -> None:
    assert {name: GONE[name] for name in GONE.keys() & classes().keys()} == {}
