"""What a store keeps of a host: its last published state, and samples of its past."""

from enum import StrEnum
from typing import NamedTuple


class Span(StrEnum):
    """The time that a sample stands for."""

    SECOND = "second"
    MINUTE = "minute"


class Sample(NamedTuple):
    """The measured state of a host; `at` is wall time in microseconds, `body` is JSON."""

    span: Span
    at: int
    body: str


class Host(NamedTuple):
    """What a host published last.

    `body` is JSON; `at`: when it was published; `until`: how long it holds.
    """

    server: str
    body: str
    at: int
    until: int
