"""Upgrades the arguments of jobs that older code has enqueued to the task's version."""

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeAlias

from limpet.domain.checks import is_whole, whole
from limpet.domain.errors import InvalidOption, PayloadInvalid
from limpet.domain.raised import raised
from limpet.payload.signature import Signature

Upgrade: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""The arguments of one version → those of the next."""

HIGHEST_VERSION = 1_000_000


def checked_version(task: str, version: int) -> int:
    """Check the version of a task; raises `InvalidOption`."""
    return whole(version, f"task {task!r}: version", most=HIGHEST_VERSION)


class Upgrades:
    """The steps of a task, each from one version of its arguments to the next."""

    def __init__(self) -> None:
        self._steps: dict[int, Upgrade] = {}

    def add(self, task: str, version: int, from_version: int, step: Upgrade) -> None:
        """Add a step; raises `InvalidOption` if it cannot be one."""
        if not is_whole(from_version) or not 1 <= from_version < version:
            raise InvalidOption(
                f"task {task!r} is of version {version}, so it can be upgraded from versions below "
                f"that, not from {from_version!r}; set a higher one with @app.task(version=…)."
            )
        if from_version in self._steps:
            raise InvalidOption(
                f"task {task!r} has two upgrades from version {from_version}; remove one of them."
            )
        kinds = (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
        if not callable(step) or any(is_(step) for is_ in kinds):
            raise InvalidOption(
                f"task {task!r}: @{task}.upgrade(…) takes a plain function of the arguments as a "
                f"dict."
            )
        self._steps[from_version] = step

    def unpack(
        self, signature: Signature, task: str, have: int, want: int, text: str
    ) -> dict[str, Any]:
        """Stored arguments of version `have` as the task takes them; raises `PayloadInvalid`."""
        tree = signature.tree(text)
        for version in range(have, want):
            step = self._steps.get(version)
            if step is None:
                raise PayloadInvalid(
                    f"{task}: the job was enqueued for version {have} of the task, which is at "
                    f"{want}, and there is no @{task}.upgrade(from_version={version})."
                )
            try:
                tree = step(tree)
            except Exception as error:
                raise PayloadInvalid(
                    f"{task}: the upgrade from version {version} failed: {raised(error)}."
                ) from error
            if not isinstance(tree, dict):
                raise PayloadInvalid(
                    f"{task}: the upgrade from version {version} returned a "
                    f"{type(tree).__qualname__}; it must return the arguments as a dict."
                )
        return signature.read(tree)
