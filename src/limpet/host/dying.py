"""Which processes are about to end, and so are no survivors of what ended others."""

import contextlib
import signal

from limpet.host.processes import LINUX, stat_fields

_PF_LEAVING = 0x4 | 0x200 | 0x400  # the process exits, dumps its core, was ended by a signal
# Signals that do not end a process by default, as the bits of a mask.
_HARMLESS = sum(
    1 << (number - 1)
    for number in (
        signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP,
        signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    )
)  # fmt: skip


def is_dying(pid: int) -> bool:
    """Whether the process is dead, exits, or has a pending signal that will end it."""
    if not LINUX:
        return False
    fields = stat_fields(pid)
    if not fields or fields[0] in (b"Z", b"X") or int(fields[6]) & _PF_LEAVING:
        return True
    waiting = handled = 0
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            name, _, mask = line.partition(b":\t")
            if name in (b"SigPnd", b"ShdPnd"):
                waiting |= int(mask, 16)
            elif name in (b"SigBlk", b"SigIgn", b"SigCgt"):
                handled |= int(mask, 16)
    return bool(waiting & ~handled & ~_HARMLESS)
