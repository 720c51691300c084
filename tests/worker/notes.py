"""What tasks write down for the test that started them: one JSON object a line."""

import json
import os
import time
from pathlib import Path
from typing import Any

Note = dict[str, Any]


def note(path: str, what: str, **facts: object) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    facts = {"what": what, "at": time.monotonic(), "pid": os.getpid(), **facts}
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, json.dumps(facts, default=str).encode() + b"\n")
    finally:
        os.close(descriptor)


def notes(path: str | Path, what: str | None = None) -> list[Note]:
    """What was written so far, all of it or of one kind."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines: list[Note] = [json.loads(line) for line in text.splitlines()]
    return [each for each in lines if what is None or each["what"] == what]


def most_at_once(path: str | Path) -> int:
    """The most attempts between their `begin` and `end` at one moment."""
    moments: list[tuple[float, int]] = []
    for each in notes(path):
        if each["what"] in ("begin", "end"):
            moments.append((each["at"], 1 if each["what"] == "begin" else -1))
    most = running = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most
