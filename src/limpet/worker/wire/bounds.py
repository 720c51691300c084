"""Bounds of the values in a frame; a frame with a value out of bounds is not understood.

Frames of an honest executor or zygote are always within bounds, because it cuts texts with `fit`.
"""

import sys
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from limpet.domain.duration import LONGEST, microseconds
from limpet.domain.job import LONGEST_LINE, LONGEST_MARK, LONGEST_NOTE
from limpet.domain.raised import LONGEST_MESSAGE, LONGEST_TRACEBACK, sendable


class NotUnderstood(msgspec.DecodeError):
    """The bytes are no frame, or the frame is not allowed; no part of it took effect."""


# The longest duration that can be written, with the most jitter.
LONGEST_DELAY_US: Final = 2 * microseconds(LONGEST)
# The last moment that can be shown as a date.
_LAST_MOMENT = 253_402_300_799_000_000
_MOST = 2**53 - 1

LONGEST_WORD, LONGEST_REASON, LONGEST_PLACE = 500, 4_096, 1_000
MOST_LINES_PER_REPORT = 100
MOST_CHUNKS, MOST_CHILDREN = 1_000_000, 1_000_000_000

Moment: TypeAlias = Annotated[int, Meta(ge=0, le=_LAST_MOMENT)]
Delay: TypeAlias = Annotated[int, Meta(ge=0, le=LONGEST_DELAY_US)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST)]
Chunks: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_CHUNKS)]
Children: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_CHILDREN)]
# Finite: NaN is not at least 0, and infinity is more than the largest number.
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]

Id: TypeAlias = Annotated[str, Meta(max_length=100)]
Word: TypeAlias = Annotated[str, Meta(max_length=LONGEST_WORD + LONGEST_MARK)]
Reason: TypeAlias = Annotated[str, Meta(max_length=LONGEST_REASON + LONGEST_MARK)]
Place: TypeAlias = Annotated[str, Meta(max_length=LONGEST_PLACE + LONGEST_MARK)]
Line: TypeAlias = Annotated[str, Meta(max_length=LONGEST_LINE + LONGEST_MARK)]
Note: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NOTE + LONGEST_MARK)]
Message: TypeAlias = Annotated[str, Meta(max_length=LONGEST_MESSAGE + LONGEST_MARK)]
Traceback: TypeAlias = Annotated[str, Meta(max_length=LONGEST_TRACEBACK + LONGEST_MARK)]


def fit(text: str, longest: int) -> str:
    """The text, cut so that a frame can carry it; one that was cut before is not cut again."""
    text = sendable(text, longest if len(text) > longest + LONGEST_MARK else len(text))
    # `sendable` writes lone surrogates out, which makes the text longer than before.
    return sendable(text, longest) if len(text) > longest + LONGEST_MARK else text
