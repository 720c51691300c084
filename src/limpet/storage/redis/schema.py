"""Checks whether a server and the version of its store will do."""

import os

from limpet.domain.errors import SchemaMismatch, StoreRefused
from limpet.storage.redis.connection import Connection, facts_of
from limpet.storage.redis.location import Location

# The version that this code writes, and the oldest one that it can work on.
NEWEST = 1
OLDEST = 1
# The oldest code that can work on what this one writes.
OLDEST_BESIDE = 1
VERSIONS = (NEWEST, OLDEST_BESIDE)

_OLDEST_SERVER = (6, 2)


def new_epoch() -> str:
    return os.urandom(8).hex()


def check_server(connection: Connection, location: Location) -> None:
    """Refuse a server on which the promises could not be kept, with the reason.

    A server that forbids INFO or PUBLISH to this user answers with an error, which is the refusal.
    Without INFO nobody would notice older data, or that jobs may be evicted; without PUBLISH
    nobody would notice that a job is ready.
    """
    facts = {**connection.facts, **facts_of(connection.execute("INFO", "memory"))}
    connection.execute("PUBLISH", location.key.removesuffix("store") + "probe", "")
    version = engine_of(facts)[1]
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < _OLDEST_SERVER:
        raise StoreRefused(
            f"{location.url} is Redis {version}; Limpet needs 6.2 or newer, or Valkey."
        )
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreRefused(
            f"{location.url} is set to maxmemory-policy {policy}: when its memory is full it would "
            f"throw jobs away silently. Set maxmemory-policy to noeviction; then enqueue is "
            f"refused when the memory is full, and nothing is lost."
        )


def check_version(location: Location, *versions: int) -> None:
    """Refuse a store of a version that this code cannot work with.

    `versions`: that of the store, the oldest and the newest that may work on it, as far as kept.
    """
    if len(versions) != 3:
        raise SchemaMismatch(f"{location.url} has Limpet's keys but no version; restore a backup.")
    version, oldest, newest = versions
    if oldest > NEWEST:
        raise SchemaMismatch(
            f"{location.url} was made by a newer Limpet (schema {version}, this one knows up to "
            f"{NEWEST}). Upgrade Limpet here, or name another store."
        )
    if newest < OLDEST:
        raise SchemaMismatch(
            f"{location.url} was made by an older Limpet (schema {version}, this one needs "
            f"{OLDEST}). Run `limpet migrate`."
        )


def engine_of(facts: dict[str, str]) -> tuple[str, str]:
    """The server's name and version; Valkey also gives the version of Redis that it resembles."""
    if "valkey_version" in facts:
        return "Valkey", facts["valkey_version"]
    return "Redis", facts.get("redis_version", "")
