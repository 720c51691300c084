"""Translates a driver's error into one of ours, with a sentence that tells what to do."""

import re

from redis import exceptions

from limpet.domain.errors import (
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
    StoreUnreachable,
)

# The word by which a server names an error. The error of a command inside a script has its word in
# the middle of the script's error, and the driver removes some words.
_WORD = re.compile(
    r"(?:^|[ -])(OOM|READONLY|LOADING|NOSCRIPT|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|MISCONF"
    r"|NOREPLICAS|BUSY|NOAUTH|WRONGPASS|NOPERM) "
)
# The error of a script whose user lacks a right.
_DENIED = re.compile(r"ACL failure|The user executing the script|[Nn]o permissions")
# The error of a script, instead of ASK, at its first key that is not on this node any more.
_NOT_HERE = "non local key"
_KINDS = {
    "OOM": exceptions.OutOfMemoryError,
    "READONLY": exceptions.ReadOnlyError,
    "LOADING": exceptions.BusyLoadingError,
    "NOSCRIPT": exceptions.NoScriptError,
    "NOPERM": exceptions.NoPermissionError,
    "WRONGPASS": exceptions.AuthenticationError,
}
# Errors after which another server may have the name space.
_ELSEWHERE = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN"})
_MOVED = re.compile(r"(?:MOVED )?\d+ (\S+):(\d+)$")


def _word(error: BaseException) -> str:
    for word, kind in _KINDS.items():
        if isinstance(error, kind):
            return word
    if isinstance(error, exceptions.AskError | exceptions.TryAgainError) or _NOT_HERE in str(error):
        return "ASK"
    if isinstance(error, exceptions.ResponseError) and _DENIED.search(str(error)):
        return "NOPERM"
    found = _WORD.search(f"{error} ")
    return found[1] if found else ""


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """The node that has the name space, as a node of the cluster names it, or None."""
    if not isinstance(error, exceptions.MovedError) and _word(error) != "MOVED":
        return None
    found = _MOVED.search(str(error))
    return (found[1], int(found[2])) if found else None


def is_lost(error: BaseException) -> bool:
    """Whether no answer came on the connection."""
    return isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError)


def is_elsewhere(error: BaseException) -> bool:
    """Whether another server may have the name space by now."""
    return is_lost(error) or _word(error) in _ELSEWHERE


def is_missing_script(error: BaseException) -> bool:
    return _word(error) == "NOSCRIPT"


def translate_error(error: Exception, where: str) -> StoreError:
    """The store's own error for one of the driver or the server."""
    word = _word(error)
    reason = str(error).rstrip(". ")
    match word:
        case "OOM":
            return StoreFull(
                f"{where} is at its memory limit (maxmemory); nothing was written. Let the workers "
                f"drain it, prune, or raise the limit, and try again."
            )
        case "LOADING":
            return StoreUnreachable(f"{where} is still loading its data; try again in a moment.")
        case "READONLY":
            return StoreReadOnly(
                f"{where} is a read-only replica. Name the primary, or use redis+sentinel:// so "
                f"that it is found."
            )
        case "NOAUTH" | "WRONGPASS":
            return StoreRefused(
                f"{where} does not accept this user and password ({reason}). Write them into the "
                f"URL: redis://user:password@host."
            )
        case "ASK":
            return StoreUnavailable(
                f"{where} is moving the slot of this name space to another node; nothing was done. "
                f"It serves again when that is over."
            )
        case "NOPERM":
            return StoreRefused(
                f"{where} does not let this user do what Limpet needs ({reason}). It needs all "
                f"keys and channels of its name space, scripts and INFO; the ACL rule stands in "
                f"docs/concepts/redis.md."
            )
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreUnreachable(
            f"{where} did not answer in time. It is not known whether the request was carried out; "
            f"repeating it is safe."
        )
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreUnreachable(
            f"{where} cannot be reached ({reason}). Check that the server runs and that the URL "
            f"is right."
        )
    if word:
        return StoreUnreachable(f"{where} cannot serve just now ({reason}); try again in a moment.")
    return StoreUnavailable(f"{where} cannot be used: {reason}.")
