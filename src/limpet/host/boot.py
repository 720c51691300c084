"""The boot id: which start of which machine this is."""

import ctypes
import sys
from functools import cache
from pathlib import Path

from limpet.domain.errors import StoreRefused

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """An id that every process of this machine shares until it restarts."""
    if sys.platform == "darwin":
        libc = ctypes.CDLL(None)
        size = ctypes.c_size_t(64)
        text = ctypes.create_string_buffer(64)
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0) == 0:
            return text.value.decode()
    try:
        return _LINUX.read_text().strip()
    except OSError as error:
        raise StoreRefused(
            f"the boot id of this system cannot be read ({error}); a store needs it to know which "
            f"workers a restart of their machine has ended."
        ) from error
