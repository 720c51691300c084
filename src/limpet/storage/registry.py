"""Maps a store's URL to its backend; imports a driver only when its backend is used."""

import os
from importlib import import_module
from types import ModuleType

from limpet.domain.clock import Clock
from limpet.domain.errors import InvalidOption
from limpet.storage.contract.store import Store

_POSTGRES = "limpet.storage.postgres.store"
_REDIS = "limpet.storage.redis.store"

_BACKENDS = {
    "sqlite": "limpet.storage.sqlite.store",
    "redis": _REDIS,
    "rediss": _REDIS,
    "valkey": _REDIS,
    "valkeys": _REDIS,
    "unix": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "redis+cluster": _REDIS,
    "rediss+cluster": _REDIS,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}


def open_store(url: str, clock: Clock | None = None) -> Store:
    """The store behind a URL; nothing is read or written before its first verb."""
    store: Store = _backend(url).open_store(url, clock)
    return store


def same_store(url: str, other: str) -> bool:
    """Whether two URLs lead to the same jobs, whatever their spelling and settings."""
    backend = _backend(url)
    return backend is _backend(other) and bool(backend.place(url) == backend.place(other))


def absolute_url(url: str) -> str:
    """The URL with an absolute path, so that it names the same file from every folder."""
    scheme, separator, rest = url.partition(":///")
    if scheme != "sqlite" or not separator or rest.startswith("/") or not rest:
        return url
    return f"{scheme}:///{os.getcwd()}/{rest}"


def _backend(url: str) -> ModuleType:
    scheme, separator, _ = url.partition("://")
    module = _BACKENDS.get(scheme) if separator else None
    if module is None:
        # The URL may hold a password, even in a wrong place.
        shown = repr(url) if "@" not in url else "(not shown: it has an @)"
        raise InvalidOption(
            f"store URL {shown}: this version of Limpet knows sqlite://, redis:// (also valkey://, "
            f"rediss://, unix://, redis+sentinel://, redis+cluster://) and postgresql://; write "
            f"for example sqlite:///jobs.db."
        )
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("limpet"):
            raise
        extra = module.split(".")[2]
        raise InvalidOption(
            f"a {scheme}:// store needs the package {error.name}; install it with "
            f"pip install 'limpet[{extra}]'."
        ) from error
