"""Where a PostgreSQL store is: its URL, and the settings of connections to it."""

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from limpet.domain.errors import InvalidOption
from limpet.storage.assets import DEFAULT_NAMESPACE

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_SETTING = re.compile(r'parameter: "([a-z_]{1,40})"')
# One host or several, each with or without a port; an IPv6 address stands in brackets.
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]@:,]*)(?::[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")

# A peer that is gone is noticed well within the shortest lease; settings in the URL win over these.
_DEFAULTS = {
    "keepalives": "1",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "4000",
    "application_name": "limpet",
    "client_encoding": "utf8",
}


@dataclass(frozen=True)
class Location:
    """A parsed `postgresql://` URL."""

    given: str = field(repr=False)
    schema: str = DEFAULT_NAMESPACE

    @cached_property
    def conninfo(self) -> str:
        """What the driver connects with: the URL, and defaults for what the URL leaves out."""
        return self.conninfo_within(5)

    @cache  # noqa: B019 -- a few locations live as long as the process
    def conninfo_within(self, seconds: int) -> str:
        """The same for a connection that must be open after this many seconds."""
        given = conninfo_to_dict(self.given)
        defaults = {**_DEFAULTS, "connect_timeout": str(seconds)}
        missing = {name: value for name, value in defaults.items() if name not in given}
        return make_conninfo(self.given, **missing)

    @property
    def quoted(self) -> str:
        """The schema's name, quoted for SQL."""
        return f'"{self.schema}"'

    @cached_property
    def place(self) -> tuple[str, ...]:
        """Host, port, database and schema."""
        given = conninfo_to_dict(self.given)
        host = given.get("hostaddr") or given.get("host") or ""
        user = str(given.get("user") or "")
        return (
            str(host),
            str(given.get("port") or 5432),
            str(given.get("dbname") or user),
            self.schema,
        )

    @cached_property
    def url(self) -> str:
        """The URL as people see it: without the password."""
        parts = urlsplit(self.given)
        user, separator, address = parts.netloc.rpartition("@")
        name = user.partition(":")[0]
        hidden = [
            (key, "***" if key in _SECRET else value)
            for key, value in parse_qsl(parts.query, keep_blank_values=True)
        ]
        if self.schema != DEFAULT_NAMESPACE:
            hidden.append(("schema", self.schema))
        query = f"?{urlencode(hidden, safe='/*')}" if hidden else ""
        return f"postgresql://{name}{separator}{address}{quote(unquote(parts.path))}{query}"


def parse(url: str) -> Location:
    """Read `postgresql://user:password@host:port/database?schema=limpet&sslmode=…`."""
    parts = _split(url)
    settings = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for key, value in settings if key == "schema"), DEFAULT_NAMESPACE)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidOption(
            f"schema {schema!r}: use up to 40 small letters, digits and underscores, not beginning "
            f"with a digit or pg_."
        )
    rest = [(key, value) for key, value in settings if key != "schema"]
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    given = f"postgresql://{parts.netloc}{parts.path}{query}"
    try:
        conninfo_to_dict(given)
    except ProgrammingError as error:
        setting = _SETTING.search(str(error))
        raise _unreadable(f": there is no setting {setting[1]}" if setting else "") from None
    return Location(given, schema)


def _split(url: str) -> SplitResult:
    """The parts of the URL; refuses a URL that libpq would split differently."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable() from None
    user, _, address = parts.netloc.rpartition("@")
    plain = "@" not in user + parts.path and "#" not in url
    if not plain or not _HOSTS.fullmatch(address):
        raise _unreadable()
    return parts


def _unreadable(reason: str = "") -> InvalidOption:
    # Does not quote the URL: where it cannot be parsed, any part of it may be the password.
    return InvalidOption(
        f"the store URL cannot be used{reason}. Write for example "
        f"postgresql://user:password@host:5432/database?schema=limpet, and in the user, the "
        f"password and the database %40 for @, %2F for /, %3A for :, %23 for #, and so on."
    )
