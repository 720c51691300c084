"""How a worker's log looks: readable lines for a person, or JSON for a machine."""

import contextlib
import logging
import os
import queue
import threading
import time
from typing import NoReturn

from limpet.domain.masking import hidden
from limpet.domain.printable import MARK, printable, printable_json, printable_lines
from limpet.log import FACTS, logger

_MOST_LINES = 1000
_LAST_SECONDS = 0.3

PRETTY, PLAIN, JSON = "pretty", "plain", "json"

_COLOURS = {"DEBUG": "\033[2m", "INFO": "\033[32m", "WARNING": "\033[33m", "ERROR": "\033[31m"}
_SIGNS = {"DEBUG": "·", "INFO": "●", "WARNING": "▲", "ERROR": "✖"}
_FAINT, _END = "\033[2m", "\033[0m"


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether it has Limpet's name; a job may give its own records an `action`, too."""
    return record.name == logger.name and hasattr(record, "action")


class _Lines(logging.Formatter):
    def __init__(self, coloured: bool, of_jobs: bool) -> None:
        super().__init__()
        self._coloured = coloured
        self._of_jobs = of_jobs

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        moment = f"{clock}.{int(record.msecs):03d}"
        job = getattr(record, "job", None)
        # Whoever wrote it: what follows a line break in it is no line of the log.
        first, *rest = printable_lines(hidden(record.getMessage()))
        if self._of_jobs or not _is_ours(record):
            first = f"{printable(record.name)} | {first}"  # a job says this, and not the worker
        text = first + (f"  {self._faint(printable(job))}" if job else "")
        if record.exc_info:
            rest += printable_lines(hidden(self.formatException(record.exc_info)))
        sign = _SIGNS.get(record.levelname, "●")
        if self._coloured:
            sign = f"{_COLOURS.get(record.levelname, '')}{sign}{_END}"
        line = f"{self._faint(moment)} {sign} {text}"
        return f"\n{MARK}".join((line, *rest))

    def _faint(self, text: str) -> str:
        return f"{_FAINT}{text}{_END}" if self._coloured else text


class _Json(logging.Formatter):
    def __init__(self, of_jobs: bool) -> None:
        super().__init__()
        self._of_jobs = of_jobs

    def format(self, record: logging.LogRecord) -> str:
        ours = _is_ours(record)
        names = ("action", *FACTS) if ours else FACTS
        facts = {name: getattr(record, name, None) for name in names}
        known = {name: str(value) for name, value in facts.items() if value is not None}
        line = {"at": record.created, "level": record.levelname.lower(), **known}
        if self._of_jobs or not ours:
            line["logger"] = record.name
        line["message"] = hidden(record.getMessage())
        if record.exc_info:
            line["error"] = hidden(self.formatException(record.exc_info))
        return printable_json(line)


def formatter_of(style: str, *, of_jobs: bool = False) -> logging.Formatter:
    """How a line looks: no text of a job begins one or moves a cursor, and it has no secrets.

    `of_jobs`: in a process that runs them, where a job may use any logger: each line names its own.
    """
    return _Json(of_jobs) if style == JSON else _Lines(style == PRETTY, of_jobs)


class _Patient(logging.Handler):
    """Writes in a thread of its own: a reader who does not read must not stop the worker."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._dropped = 0
        threading.Thread(target=self._write, name="limpet-voice", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self._lines.put_nowait(f"({self._dropped} lines were not read in time)")
                self._dropped = 0
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with contextlib.suppress(OSError):
                os.write(2, f"{line}\n".encode(errors="replace"))
            self._lines.task_done()

    def finish(self) -> None:
        """Give the last lines a moment."""
        until = time.monotonic() + _LAST_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.002)


_handler: _Patient | None = None


def speak(style: str = PLAIN, level: str = "info") -> None:
    """Write the log of this process to standard error."""
    global _handler
    _handler = handler = _Patient()
    handler.setFormatter(formatter_of(style))
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def leave(code: int) -> NoReturn:
    """End this process at once, but for the last lines of its log."""
    if _handler is not None:
        _handler.finish()
    os._exit(code)
