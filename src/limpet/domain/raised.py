"""An exception of a task as a cause, cut to a size that the timeline can keep."""

import os
from traceback import FrameSummary, StackSummary, TracebackException

from limpet.domain.cause import Raised
from limpet.domain.masking import hidden

LONGEST_TRACEBACK = 16 * 1024
LONGEST_MESSAGE = 4 * 1024

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = os.path.join(_STANDARD, "site-packages", "")


def raised(error: BaseException) -> Raised:
    """The cause for an exception, with a traceback that starts at the user's code."""
    return Raised(
        type=_name(type(error)),
        message=sendable(_message(error), LONGEST_MESSAGE),
        traceback=sendable(_traceback(error), LONGEST_TRACEBACK),
    )


def sendable(text: str, longest: int) -> str:
    """The text as any store can keep it: valid UTF-8, without the secrets of the running attempt.

    A text longer than `longest` characters loses its middle.
    """
    text = hidden(text)  # before the cut, which could leave half of a secret
    cut = len(text) - longest
    if cut > 0:
        half = longest // 2
        text = f"{text[:half]}\n… {cut} characters left out …\n{text[-half:]}"
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return text.encode(errors="backslashreplace").decode()
    return text


def _name(kind: type[BaseException]) -> str:
    # Limpet's own errors have the name that users import.
    if kind.__module__ == "builtins" or kind.__module__.startswith("limpet."):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:
        return f"(its text cannot be shown: str() raised {type(unprintable).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        whole = TracebackException(type(error), error, error.__traceback__, compact=True)
        _leave_out_ours(whole)
        return "".join(whole.format())
    except Exception as failed:  # a source loader or an exception class of the user's may fail
        return f"(the traceback cannot be shown: {type(failed).__name__} while it was formatted)"


def _leave_out_ours(whole: TracebackException) -> None:
    """Drop the frames by which Limpet called the task, in the exception and all it carries."""
    waiting = [whole]
    while waiting:
        error = waiting.pop()
        error.stack = StackSummary.from_list(_shown(list(error.stack)))
        waiting += [other for other in (error.__cause__, error.__context__) if other is not None]
        waiting += error.exceptions or []


def _shown(frames: list[FrameSummary]) -> list[FrameSummary]:
    """The frames without Limpet's own; those below the user's last stay: the user called them."""
    users = [place for place, frame in enumerate(frames) if _is_the_users(frame)]
    first, last = (users[0], users[-1]) if users else (len(frames), len(frames))
    lead = max((place for place in range(first) if _is_ours(frames[place])), default=-1)
    return [
        frame
        for place, frame in enumerate(frames)
        if place > lead and (place > last or not _is_ours(frame))
    ]


def _is_ours(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_OURS)


def _is_the_users(frame: FrameSummary) -> bool:
    name = frame.filename
    standard = name.startswith(_STANDARD) and not name.startswith(_INSTALLED)
    return not standard and not name.startswith((_OURS, "<frozen "))
