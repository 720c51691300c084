"""The URL of a Redis store."""

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, unquote

from limpet.domain.errors import InvalidOption

_PORT, _SENTINEL_PORT = 6379, 26379
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EXAMPLES = (
    "write redis://host:6379/0, rediss:// for TLS, unix:///path/to/redis.sock, "
    "redis+sentinel://host:26379,host:26379/service/0 or redis+cluster://host:6379,host:6379"
)
_SETTINGS = ("namespace", "timeout", "ca", "sentinel_username", "sentinel_password")

Kind: TypeAlias = Literal["single", "unix", "sentinel", "cluster"]
Address: TypeAlias = tuple[str, int]

# scheme → kind, TLS
_SCHEMES: dict[str, tuple[Kind, bool]] = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "valkey": ("single", False),
    "valkeys": ("single", True),
    "unix": ("unix", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
SCHEMES = tuple(_SCHEMES)


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed URL; `timeout_seconds` bounds every wait for the server.

    The Sentinels may have a user and a password of their own, apart from those of the server.
    """

    kind: Kind
    hosts: tuple[Address, ...] = ()
    path: str = ""
    db: int = 0
    service: str = ""
    tls: bool = False
    ca: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    namespace: str = "limpet"
    timeout_seconds: float = 3.0

    @property
    def key(self) -> str:
        """The key of the store itself; all other keys begin with the same hash tag."""
        return f"{{{self.namespace}}}:store"

    @property
    def url(self) -> str:
        """The URL as it is shown: without the password."""
        scheme = {"single": "redis", "unix": "unix"}.get(self.kind, f"redis+{self.kind}")
        if self.tls:
            scheme = scheme.replace("redis", "rediss", 1)
        user = f"{self.username or ''}:***@" if self.password else ""
        query = [] if self.namespace == "limpet" else [f"namespace={self.namespace}"]
        if self.kind == "unix":
            where = self.path
            query = [f"db={self.db}", *query] if self.db else query
        else:
            where = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.hosts)
            where += f"/{self.service}" if self.kind == "sentinel" else ""
            where += "" if self.kind == "cluster" else f"/{self.db}"
        return f"{scheme}://{user}{where}" + (f"?{'&'.join(query)}" if query else "")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse(url: str) -> Location:
    """Read the URL of a Redis store, or refuse it with a sentence."""
    scheme, _, rest = url.partition("://")
    kind, tls = _SCHEMES[scheme]
    shown = f"{scheme}://…"  # a URL may hold a password, and this is logged
    rest, _, query = rest.partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    credentials, at, rest = rest.rpartition("@")
    username, _, password = credentials.partition(":") if at else ("", "", "")
    where, slash, path = rest.partition("/")
    db = settings.pop("db", "") if kind == "unix" else ""
    service = ""
    if kind == "sentinel":
        service, _, db = path.partition("/")
        if not service:
            raise InvalidOption(
                f"store URL {shown}: the name of the service is missing; {_EXAMPLES}."
            )
    elif kind == "single":
        db = path
    elif kind == "cluster" and path not in ("", "0"):
        raise InvalidOption(f"store URL {shown}: a cluster has only database 0.")
    if (db and not db.isdigit()) or (kind == "unix" and not path):
        raise InvalidOption(f"store URL {shown}: {_EXAMPLES}.")
    namespace = settings.pop("namespace", "limpet")
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidOption(
            f"store URL {shown}: namespace is the beginning of every key; use 1 to 64 letters, "
            f"digits, dots, dashes and underscores."
        )
    timeout = _seconds(shown, settings.pop("timeout", "3"))
    ca = settings.pop("ca", None)
    watchers = {}
    if kind == "sentinel":
        names = ("sentinel_username", "sentinel_password")
        watchers = {name: settings.pop(name, None) for name in names}
    if settings:
        # A setting that does not look like a name may be the rest of a password: it is not shown.
        named = ", ".join(sorted(filter(str.isidentifier, settings))) or "after a question mark"
        raise InvalidOption(
            f"store URL {shown}: unknown setting {named}; a Redis store knows "
            f"{', '.join(_SETTINGS)}. In a password write %3F for a question mark."
        )
    port = _SENTINEL_PORT if kind == "sentinel" else _PORT
    return Location(
        kind=kind,
        hosts=() if kind == "unix" else _addresses(shown, where, port),
        path=unquote(where + slash + path) if kind == "unix" else "",
        db=int(db or 0),
        service=unquote(service),
        tls=tls,
        ca=ca,
        username=unquote(username) or None,
        password=unquote(password) or None,
        namespace=namespace,
        timeout_seconds=timeout,
        **watchers,
    )


def _seconds(shown: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 60:
        raise InvalidOption(f"store URL {shown}: timeout is seconds, from 0.05 to 60.")
    return seconds


def _addresses(shown: str, where: str, port: int) -> tuple[Address, ...]:
    found = []
    for address in (where or "localhost").split(","):
        host, given = address, ""
        if address.startswith("["):
            host, _, given = address[1:].partition("]")
            given = given.removeprefix(":")
        elif ":" in address:
            host, _, given = address.partition(":")
        if not host or (given and not given.isdigit()):
            raise InvalidOption(f"store URL {shown}: {_EXAMPLES}.")
        found.append((host, int(given or port)))
    return tuple(found)
