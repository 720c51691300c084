"""Connections to PostgreSQL that outlive the store of a test, for the store of the next one.

A server's process that was just started reads its catalogs and compiles every function anew, which
takes longer than most tests. Workers keep their connections for days; so this is as in life.
"""

import atexit
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from limpet.storage.postgres.database import Connection
from limpet.storage.postgres.store import PostgresStore

# By server and schema, and by whether it is for renewals, as a store keeps them apart.
_kept: dict[tuple[str, bool], list[Connection]] = defaultdict(list)


@contextmanager
def warmed(store: PostgresStore) -> Iterator[None]:
    """Lend the connections of earlier stores, and take back those that the store has at the end."""
    pools, url = store._db._pools, store._location.url
    for urgent, pool in pools.items():
        pool._idle.extend(_kept.pop((url, urgent), ()))
    try:
        yield
    finally:
        for urgent, pool in pools.items():
            _kept[url, urgent] += [each for each in pool.empty() if not each.closed]


def _close() -> None:
    for connections in _kept.values():
        for each in connections:
            each.close()


atexit.register(_close)
