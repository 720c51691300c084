"""Says a driver's error as one of ours, in a sentence that tells what to do."""

from redis import exceptions

from limpet.domain.errors import (
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)

# What a server says of itself that another server, or the same one later, would not.
_ELSEWHERE = ("READONLY", "MASTERDOWN", "CLUSTERDOWN", "UNBLOCKED")
_LATER = ("LOADING", "BUSY", "TRYAGAIN", "ASK", "NOREPLICAS", "MISCONF")


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """Where a cluster says that the name space is, or None."""
    words = _text(error).split()
    if len(words) < 3 or words[0] != "MOVED":
        return None
    host, _, port = words[2].rpartition(":")
    return host, int(port)


def is_elsewhere(error: BaseException) -> bool:
    """Whether somebody else may be the one to ask by now."""
    return isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError) or _text(
        error
    ).startswith(_ELSEWHERE)


def is_missing_script(error: BaseException) -> bool:
    return _text(error).startswith("NOSCRIPT")


def _text(error: BaseException) -> str:
    """What the server said, with the word in front that the driver may have taken off."""
    text = str(error)
    match error:
        case exceptions.ReadOnlyError() if not text.startswith("READONLY"):
            return f"READONLY {text}"
        case exceptions.NoScriptError() if not text.startswith("NOSCRIPT"):
            return f"NOSCRIPT {text}"
        case exceptions.BusyLoadingError() if not text.startswith("LOADING"):
            return f"LOADING {text}"
        case exceptions.OutOfMemoryError() if not text.startswith("OOM"):
            return f"OOM {text}"
        case exceptions.MovedError() | exceptions.AskError() if not text.startswith(
            ("MOVED", "ASK")
        ):
            word = "MOVED" if isinstance(error, exceptions.MovedError) else "ASK"
            return f"{word} {text}"
        case _:
            return text


def said(error: Exception, where: str) -> StoreError:
    """The error of the store's own kind for one of the driver's or the server's."""
    text = _text(error)
    # A command that failed inside a script comes with the place in the script behind it.
    reason = text.split(" script:", 1)[0].rstrip(". ")
    if "OOM" in text.split(" ")[0]:
        return StoreFull(
            f"{where} is at its memory limit (maxmemory); nothing was written. Let the workers "
            f"drain it, prune, or raise the limit, and try again."
        )
    if text.startswith("LOADING"):
        return StoreUnavailable(f"{where} is still loading its data; try again in a moment.")
    if text.startswith("READONLY"):
        return StoreReadOnly(
            f"{where} is a read-only replica. Name the primary, or use redis+sentinel:// so that "
            f"it is found."
        )
    if isinstance(error, exceptions.AuthenticationError) or text.startswith(
        ("NOAUTH", "WRONGPASS", "invalid username-password")
    ):
        return StoreRefused(
            f"{where} does not accept this user and password ({reason}). Write them into the URL: "
            f"redis://user:password@host."
        )
    if isinstance(error, exceptions.NoPermissionError) or text.startswith("NOPERM"):
        return StoreRefused(
            f"{where} does not let this user do what Limpet needs ({reason}). It needs all keys "
            f"and channels of its name space, scripts and INFO."
        )
    if isinstance(error, exceptions.TimeoutError):
        return StoreUnavailable(
            f"{where} did not answer in time. Whether it did what was asked is not known; saying "
            f"it again is safe."
        )
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreUnavailable(
            f"{where} cannot be reached ({reason}). Check that the server runs and that the URL "
            f"is right."
        )
    if text.startswith(_LATER + _ELSEWHERE):
        return StoreUnavailable(f"{where} cannot serve just now ({reason}); try again in a moment.")
    return StoreUnavailable(f"{where} cannot be used: {reason}.")
