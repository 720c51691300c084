"""Texts that others have written, made safe for a terminal or a log.

Characters that a terminal would obey, or that a reader would take for the end of a line, are
written as escapes: control characters (C0, DEL, C1), line separators, and characters that change
the direction of a line.
"""

import json
import re
from typing import Any

# Also halves of surrogate pairs, which no stream can encode, and invisible marks that change how
# the text after them is read.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Begins every line but the first of a text of several lines.
MARK = "    | "


def printable(text: object) -> str:
    """The text in one line; characters that a terminal would obey become escapes."""
    return _OBEYED.sub(_escape, str(text))


def printable_lines(text: object) -> list[str]:
    """The text line by line, each as `printable` makes it; at least one."""
    return [printable(line) for line in str(text).rstrip("\n").split("\n")]


def printable_json(value: Any, indent: int | None = None) -> str:
    """JSON text that no terminal obeys, and that reads back as the same value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    # The encoder has escaped C0 already: the line breaks that are left are its own layout.
    return "\n".join(_OBEYED.sub(_escape_json, line) for line in text.split("\n"))


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _escape_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
