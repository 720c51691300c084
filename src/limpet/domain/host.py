"""What is kept of a host: what it last said of itself, and how it has been doing."""

from enum import StrEnum
from typing import NamedTuple


class Span(StrEnum):
    """What a sample stands for."""

    SECOND = "second"
    MINUTE = "minute"


class Sample(NamedTuple):
    """How a host was doing: `at` is wall time in microseconds, `body` is JSON."""

    span: Span
    at: int
    body: str


class Host(NamedTuple):
    """What a host last said of itself, as JSON, when, and until when that holds."""

    server: str
    body: str
    at: int
    until: int
