"""One way to break a store on purpose."""

from dataclasses import dataclass
from pathlib import Path

STORAGE = Path("limpet/storage")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text of one script file and what to put in its place; `breaks` says what no longer holds.

    `store`: which one; `file` is a path in its package.
    """

    file: str
    old: str
    new: str
    breaks: str
    store: str = "sqlite"

    @property
    def path(self) -> Path:
        return STORAGE / self.store / self.file
