"""The format of a worker's log: readable lines for a person, or JSON for a machine."""

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
    """Whether Limpet wrote the record; a job may give its own records an `action`, too."""
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
        # Whoever wrote the message: text after a line break must not look like a line of the log.
        first, *rest = printable_lines(hidden(record.getMessage()))
        if self._of_jobs or not _is_ours(record):
            first = f"{printable(record.name)} | {first}"  # from a job, not from the worker
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
    """The formatter of a style: text of a job begins no line, moves no cursor, and has no secrets.

    `of_jobs`: for a process that runs jobs, which may use any logger: each line names its logger.
    """
    return _Json(of_jobs) if style == JSON else _Lines(style == PRETTY, of_jobs)


class _ThreadedHandler(logging.Handler):
    """Writes in its own thread: a reader of the log that stops reading must not stop the worker."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._dropped = 0
        threading.Thread(target=self._write, name="limpet-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped:
                self._lines.put_nowait(f"(lines lost, not read in time: {self._dropped})")
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
        """Wait a moment until the last lines are written."""
        until = time.monotonic() + _LAST_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.002)


_handler: _ThreadedHandler | None = None


def start_log(style: str = PLAIN, level: str = "info") -> None:
    """Write the log of this process to standard error."""
    global _handler
    _handler = handler = _ThreadedHandler()
    handler.setFormatter(formatter_of(style))
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def exit_process(code: int) -> NoReturn:
    """End this process as soon as the last lines of its log are written."""
    if _handler is not None:
        _handler.finish()
    os._exit(code)
