"""A store of a test, with its tables made."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from servers.warm import warmed

from limpet.storage.contract.store import Store
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock


@contextmanager
def opened(url: str, clock: FakeClock) -> Iterator[Store]:
    """Open the store at the URL, and close it at the end."""
    with closing(open_store(url, clock)) as store:
        if isinstance(store, PostgresStore):
            with warmed(store):  # its tables were made when the server was first asked for
                yield store
        else:
            store.migrate()
            yield store
