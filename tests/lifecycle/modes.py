"""The four ways in which a worker can run; every lifecycle test passes in each."""

import os
import subprocess
import sys
from enum import StrEnum
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent.parent
# The user and the group `nobody`, of whom nothing but the number is needed.
NOBODY = 65534


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
    def user(self) -> int | None:
        """Whom the worker runs as; None for whoever runs the tests."""
        return NOBODY if self is Mode.NON_ROOT and os.geteuid() == 0 else None

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
        if self.user is not None and not _readable_by_nobody():
            return "the checkout cannot be read by other users"
        return None


@cache
def _readable_by_nobody() -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", "import limpet.app, lifecycle.intervals"],
            env={"PYTHONPATH": str(TESTS)},
            cwd="/",
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
    )


# For what does not depend on the mode: the strongest that there is here.
BEST = Mode.NAMESPACE if os.geteuid() == 0 else Mode.NON_ROOT
