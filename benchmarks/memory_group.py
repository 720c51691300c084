"""A temporary control group with a memory limit; needs root."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from contender import Trouble

TREE = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group whose processes the kernel ends when they take more than the limit."""

    def __init__(self, folder: Path, used: str, limit: str, events: str) -> None:
        self._folder = folder
        self._used = folder / used
        self._limit = folder / limit
        self._events = folder / events

    def set_limit(self, size: int) -> None:
        self._limit.write_text(str(size))

    def within(self, command: list[str]) -> list[str]:
        """The same command, run in the group with all its children."""
        enter = f'echo $$ > {self._folder}/cgroup.procs && exec "$@"'
        return ["/bin/sh", "-c", enter, "sh", *command]

    def used(self) -> int:
        return int(self._used.read_text())

    def killed(self) -> int:
        """How often the kernel ended a process of the group for want of memory."""
        lines = dict(line.split() for line in self._events.read_text().splitlines())
        return int(lines.get("oom_kill", 0))

    def clear(self) -> None:
        for _ in range(50):
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            time.sleep(0.1)


@contextlib.contextmanager
def memory_group(size: int) -> Iterator[MemoryGroup]:
    """A new group with that limit."""
    name = f"limpet-bench-{os.getpid()}"
    first = TREE / "memory" / name
    second = TREE / name
    if (TREE / "memory" / "memory.limit_in_bytes").exists():
        group = MemoryGroup(
            first, "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control"
        )
        folder = first
    else:
        group = MemoryGroup(second, "memory.current", "memory.max", "memory.events")
        folder = second
    try:
        folder.mkdir()
        group.set_limit(size)
    except OSError as error:
        raise Trouble(f"no control group could be made ({error}); this needs root.") from error
    try:
        yield group
    finally:
        group.clear()
