"""The four ways in which a worker can run.

A lifecycle test passes in each, but for one that says with the mark `modes` which of them matter.
"""

import contextlib
import os
import subprocess
import sys
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent.parent
# The user and the group `nobody`, of whom nothing but the number is needed.
NOBODY = 65534


# The first start of a program is still root's; what matters is whether the user can start another.
_TRIAL = """
import os, sys
itself = [sys.executable, "-c", "import limpet.app, lifecycle.intervals"]
os.execv(sys.executable, itself)
"""


class Mode(StrEnum):
    """How a worker is started.

    `namespace`: the zygote is PID 1 of a pid namespace. `plain`: as root without one. `spawn`: the
    app starts a thread on import, so that executors cannot be forked. `non-root`: as a user who
    owns nothing.
    """

    NAMESPACE = "namespace"
    PLAIN = "plain"
    SPAWN = "spawn"
    NON_ROOT = "non-root"

    @property
    def environment(self) -> dict[str, str]:
        if self is Mode.PLAIN:
            return {"LIMPET_PID_NAMESPACE": "0"}
        return {"LIMPET_TEST_THREAD": "1"} if self is Mode.SPAWN else {}

    @property
    def wrapper(self) -> tuple[str, ...]:
        """The words in front of a command that make it run in this mode, in the same process."""
        if self is not Mode.NON_ROOT or os.geteuid() != 0:
            return ()
        return _as_nobody() or ()

    @property
    def airtight(self) -> bool:
        """Whether nothing escapes even when the whole tree is killed at once."""
        return self in (Mode.NAMESPACE, Mode.SPAWN) and os.geteuid() == 0

    @property
    def missing(self) -> str | None:
        """Why this mode cannot be tried here; None if it can."""
        if sys.platform != "linux":
            return "the guarantees are those of Linux"
        if self is Mode.NAMESPACE and os.geteuid() != 0:
            return "only root may make a pid namespace"
        if self is Mode.PLAIN and os.geteuid() != 0:
            return "the same as non-root where the tests are not run by root"
        if self is Mode.NON_ROOT and os.geteuid() == 0 and _as_nobody() is None:
            return "no other user can run this checkout"
        return None


@cache
def _as_nobody() -> tuple[str, ...] | None:
    """How to run a command as a user who is not root; None if that cannot be done here."""
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    # Where Python or the checkout lies in root's own folders, the user may read there, no more.
    to_read = "+dac_read_search"
    for words in (drop, (*drop, f"--inh-caps={to_read}", f"--ambient-caps={to_read}")):
        with contextlib.suppress(FileNotFoundError):
            done = subprocess.run(
                [*words, sys.executable, "-c", _TRIAL],
                env={"PYTHONPATH": str(TESTS), "PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                stderr=subprocess.DEVNULL,
                check=False,
            )
            if done.returncode == 0:
                return words
    return None


# For what does not depend on the mode: the strongest that there is here.
BEST = Mode.NAMESPACE if os.geteuid() == 0 else Mode.NON_ROOT

# Besides SQLite; Valkey keeps what Redis keeps.
OTHER_STORES = ("redis", "postgres")


class Case(NamedTuple):
    """How and on what a test is run."""

    mode: Mode
    store: str = "sqlite"

    def __str__(self) -> str:
        return str(self.mode) if self.store == "sqlite" else self.store
