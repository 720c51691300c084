"""Hides credentials in this process's command line, which every user of the machine may read."""

import ctypes
import re
import sys

_USER_AND_PASSWORD = re.compile(rb"(?<=://)[^\0]*(?=@)")
_PASSWORD_SETTING = re.compile(rb"(?<=[?&])(\w*(?:password|secret|scram_\w*_key))=([^&\0]*)")


def hide_credentials() -> None:
    """Overwrite credentials in the command line, which Linux keeps in the process's own memory.

    Others can read them until then, while Python starts.
    """
    if sys.platform != "linux" or not any("://" in word for word in sys.orig_argv):
        return
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read()
        with open("/proc/self/stat", "rb") as file:
            # The name, in parentheses, may hold any character; the fields come after it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return
    begin, end = int(fields[45]), int(fields[46])
    hidden = without_credentials(words)
    if hidden != words and begin and end - begin == len(words) == len(hidden):
        ctypes.memmove(begin, hidden, len(hidden))


def without_credentials(words: bytes) -> bytes:
    """Words of a command line with stars for credentials; each word keeps its length."""
    words = _USER_AND_PASSWORD.sub(lambda found: b"*" * len(found.group()), words)
    return _PASSWORD_SETTING.sub(
        lambda found: found.group(1) + b"=" + b"*" * len(found.group(2)), words
    )
