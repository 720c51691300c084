"""How a worker's log looks: readable lines for a person, or JSON for a machine."""

import json
import logging
import sys
import time

from limpet.log import FACTS, logger

PRETTY, PLAIN, JSON = "pretty", "plain", "json"

_COLOURS = {"DEBUG": "\033[2m", "INFO": "\033[32m", "WARNING": "\033[33m", "ERROR": "\033[31m"}
_SIGNS = {"DEBUG": "·", "INFO": "●", "WARNING": "▲", "ERROR": "✖"}
_FAINT, _END = "\033[2m", "\033[0m"


class _Lines(logging.Formatter):
    def __init__(self, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        moment = f"{clock}.{int(record.msecs):03d}"
        job = getattr(record, "job", None)
        text = record.getMessage() + (f"  {self._faint(job)}" if job else "")
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        sign = _SIGNS.get(record.levelname, "●")
        if self._coloured:
            sign = f"{_COLOURS.get(record.levelname, '')}{sign}{_END}"
        return f"{self._faint(moment)} {sign} {text}"

    def _faint(self, text: str) -> str:
        return f"{_FAINT}{text}{_END}" if self._coloured else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = {name: getattr(record, name, None) for name in ("action", *FACTS)}
        known = {name: value for name, value in facts.items() if value is not None}
        line = {"at": record.created, "level": record.levelname.lower(), **known}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def speak(style: str = PLAIN, level: str = "info") -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == JSON else _Lines(coloured=style == PRETTY))
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
