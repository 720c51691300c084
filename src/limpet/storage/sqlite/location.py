"""The place of a SQLite store: its URL, and whether a store is safe on that file system."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote

from limpet.domain.errors import InvalidOption, StoreRefused

MEMORY = ":memory:"
_SCHEME = "sqlite://"
_MOUNTS = Path("/proc/self/mountinfo")
# In that file, a space, tab, newline or backslash of a path is written as three octal digits.
_ESCAPED = re.compile(r"\\([0-7]{3})")

# File systems whose locks or shared memory do not reach the other machines that write to them.
_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre"}
    | {"ncpfs", "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed `sqlite://` URL."""

    path: str
    synchronous: Literal["full", "normal"] = "full"
    namespace: str = "limpet"

    @property
    def in_memory(self) -> bool:
        return self.path == MEMORY

    @property
    def url(self) -> str:
        if self.in_memory:
            return "sqlite://"
        query = []
        if self.synchronous != "full":
            query.append(f"synchronous={self.synchronous}")
        if self.namespace != "limpet":
            query.append(f"namespace={self.namespace}")
        return f"sqlite:///{self.path}" + (f"?{'&'.join(query)}" if query else "")


def parse(url: str) -> Location:
    """Read `sqlite:///jobs.db`, `sqlite:////absolute/jobs.db` or `sqlite://` (in memory)."""
    rest, _, query = url.removeprefix(_SCHEME).partition("?")
    if rest and not rest.startswith("/"):
        raise InvalidOption(
            f"store URL {url!r}: write sqlite:///jobs.db for a file beside you, "
            f"sqlite:////full/path/jobs.db for one elsewhere, or sqlite:// for memory."
        )
    path = unquote(rest[1:]) or MEMORY
    settings = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = settings.pop("synchronous", "full").lower()
    namespace = settings.pop("namespace", "limpet")
    if synchronous not in ("full", "normal"):
        raise InvalidOption(
            f"store URL {url!r}: synchronous is 'full' (survives a power cut) or 'normal' (faster)."
        )
    if not namespace.isidentifier() or not namespace.isascii() or namespace.startswith("sqlite"):
        raise InvalidOption(
            f"store URL {url!r}: namespace is the beginning of table names; use letters, digits "
            f"and underscores."
        )
    if settings:
        raise InvalidOption(
            f"store URL {url!r}: unknown setting {', '.join(sorted(settings))}; a SQLite store "
            f"knows synchronous and namespace."
        )
    absolute = path if path == MEMORY else os.path.realpath(path)
    return Location(absolute, "full" if synchronous == "full" else "normal", namespace)


def refuse_network(path: str, mounts: Path = _MOUNTS) -> None:
    """Raise `StoreRefused` for a file on a network file system; elsewhere do nothing."""
    kind = _filesystem(os.path.realpath(path), mounts)
    if kind in _NETWORK:
        raise StoreRefused(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold "
            f"between machines and the file would be damaged. Use a local disk, or a redis:// or "
            f"postgresql:// store for several machines."
        )


def _filesystem(path: str, mounts: Path) -> str | None:
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), left.split(" ")[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two equal mount points, the later one lies on top.
        if inside and (best is None or len(point) >= best[0]):
            best = (len(point), right.split(" ")[0])
    return best[1] if best else None
