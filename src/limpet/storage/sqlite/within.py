"""A job that exists if and only if the user's own transaction commits."""

import os
import sqlite3
from collections.abc import Mapping, Sequence

import apsw

from limpet.domain.errors import TransactionRefused
from limpet.domain.job import NewJob
from limpet.storage.contract.answers import Receipt
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.enqueue import enqueue
from limpet.storage.sqlite.failures import translate_error
from limpet.storage.sqlite.schema import create_or_check
from limpet.storage.sqlite.transaction import Transaction


def enqueue_within(
    database: Database,
    connection: object,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
) -> list[Receipt]:
    """Enqueue in the open transaction of the caller's connection; refuse an unsafe one."""
    own = _safe(database, connection)
    transaction = Transaction(own, database.clock, database.boot, database.location.namespace)
    try:
        with own:  # a savepoint: a failure here leaves the caller's transaction as it was
            receipts = enqueue(transaction, jobs, caps)
            transaction.flush()
    except apsw.Error as error:
        raise translate_error(error, database.location.path, own.system_errno) from error
    return receipts


def _safe(database: Database, connection: object) -> apsw.Connection:
    if isinstance(connection, sqlite3.Connection):
        raise TransactionRefused(
            "within= was given a connection of Python's sqlite3 module. It carries its own, older "
            "copy of SQLite; two copies in one process drop each other's locks when one closes "
            "the file, and can damage it. Open your connection with apsw (pip install apsw): "
            "apsw.Connection(path)."
        )
    if not isinstance(connection, apsw.Connection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise TransactionRefused(
            f"within= takes an apsw.Connection to the file of this SQLite store, not a {kind}."
        )
    path = database.location.path
    if database.location.in_memory or not connection.filename:
        raise TransactionRefused(
            "within= needs a store in a file that your connection has open as its main database; "
            "a database in memory cannot be shared."
        )
    if not os.path.exists(path):
        # Make the file first; otherwise the check of its tables below would only find none.
        database.write(lambda _: None)
    if not os.path.samefile(connection.filename, path):
        raise TransactionRefused(
            f"within= was given a connection to {connection.filename}, but the store is {path}. "
            f"One transaction cannot span two files."
        )
    if not connection.in_transaction:
        raise TransactionRefused(
            "within= was given a connection that has no open transaction, so there is nothing to "
            "commit with. Begin one first: connection.execute('BEGIN IMMEDIATE')."
        )
    if not connection.table_exists("main", f"{database.location.namespace}_job"):
        raise TransactionRefused(
            f"{path} has no Limpet tables that your transaction can see; run `limpet migrate` once "
            f"before it begins."
        )
    create_or_check(connection, database.location, database.clock, may_create=False)
    return connection
