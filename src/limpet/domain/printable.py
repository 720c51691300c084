"""Texts that others have written, as a terminal or a log may show them.

What a terminal would obey, or a reader would take for the end of a line, is written out as an
escape: control characters (C0, DEL, C1), line separators, and what turns the direction of a line.
"""

import json
import re
from typing import Any

# Beside the above: halves of surrogate pairs, which no stream can encode, and marks that are
# invisible and change how the text after them is read.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# In front of each line of a text of several lines but its first.
MARK = "    | "


def printable(text: object) -> str:
    """The text in one line, with every character that would be obeyed as an escape."""
    return _OBEYED.sub(_escape, str(text))


def printable_lines(text: object) -> list[str]:
    """The text line by line, each as `printable` makes it; at least one."""
    return [printable(line) for line in str(text).rstrip("\n").split("\n")]


def printable_json(value: Any, indent: int | None = None) -> str:
    """JSON text that no terminal obeys, and that reads back as the same value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    # The encoder has escaped C0 already: the line breaks that are left lay the text out.
    return "\n".join(_OBEYED.sub(_escape_json, line) for line in text.split("\n"))


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _escape_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
