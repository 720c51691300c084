"""An exception of a task as a cause: what the timeline keeps of it, in a sane size."""

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
    """The text as any store can keep it: without the secrets of the running attempt, valid UTF-8,
    its middle cut where it is too long.
    """
    text = hidden(text)  # before it is cut, else half of one is left
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
    # Limpet's own errors by the name that users import.
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
    except Exception as failed:  # a module's source or an exception with a mind of its own
        return f"(the traceback cannot be shown: {type(failed).__name__} while it was put together)"


def _leave_out_ours(whole: TracebackException) -> None:
    """Drop the frames by which Limpet called the task, in the exception and all it carries."""
    waiting = [whole]
    while waiting:
        each = waiting.pop()
        each.stack = StackSummary.from_list(_shown(list(each.stack)))
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        waiting += each.exceptions or []


def _shown(frames: list[FrameSummary]) -> list[FrameSummary]:
    """Without Limpet's frames down to the user's last; below it they are what the user called."""
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
