"""One way to break a store's scripts on purpose."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Where the scripts of each store are, below the sources.
FOLDERS = {
    "sqlite": Path("limpet/storage/sqlite/sql"),
    "redis": Path("limpet/storage/redis/lua"),
    "postgres": Path("limpet/storage/postgres"),
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text of one script and its replacement; `breaks`: what no longer holds."""

    file: str
    old: str
    new: str
    breaks: str
    store: str = "sqlite"

    @property
    def path(self) -> Path:
        """The script, below the sources."""
        return FOLDERS[self.store] / self.file
