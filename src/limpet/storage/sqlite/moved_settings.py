"""The settings of the store, on their way to another store or from one."""

from collections.abc import Sequence

from limpet.storage.records.store_settings import BreakerPiece, KeyPiece, QueuePiece, read
from limpet.storage.records.texts import rate_in, rules_of_row, to_json
from limpet.storage.sql import schedules
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.breakers import write
from limpet.storage.sqlite.limits import write_rules
from limpet.storage.sqlite.transaction import Transaction

Piece = tuple[str, str, str]


def pieces(tx: Transaction) -> tuple[Piece, ...]:
    """All settings that differ from the defaults, as a manifest lists them."""
    found: list[Piece] = [("breaker", name, body) for name, body in tx.run("breakers", "all")]
    found += [("queue", row[0], _queue(row).text()) for row in tx.run("moved_settings", "queues")]
    found += [("key", row[0], _key(row).text()) for row in tx.run("moved_settings", "keys")]
    found += schedules.settings(tx)
    return tuple(sorted(piece for piece in found if piece[2] != "{}"))


def _queue(row: Row) -> QueuePiece:
    name, declared, adjusted, held_until, given_until, draining = row
    rules = rules_of_row(name, declared, adjusted)
    return QueuePiece(*rules, held_until, given_until, bool(draining))


def _key(row: Row) -> KeyPiece:
    name, most, rate, given_until = row
    return KeyPiece(most, rate_in(name, rate), given_until)


def place(tx: Transaction, found: Sequence[Piece]) -> None:
    """Replace the settings by those of a manifest."""
    forget(tx)
    tx.many("schedule", "adopt", schedules.rows(found))
    for kind, name, text in found:
        if kind == "queue":
            queue = read(QueuePiece, text)
            write_rules(tx, name, queue.declared, queue.adjusted)
            tx.run("limits", "hold", queue=name, until=queue.held_until)
            tx.run("limits", "given", queue=name, given_until=queue.given_until)
            tx.run("limits", "drain", queue=name, draining=int(queue.draining))
        elif kind == "key":
            key = read(KeyPiece, text)
            rate = to_json(key.rate) if key.rate else None
            tx.run("keys", "limit", key=name, most=key.limit, rate=rate)
            tx.run("moved_settings", "given", key=name, given_until=key.given_until)
        elif kind == "breaker":
            write(tx, read(BreakerPiece, text).breaker(name))


def forget(tx: Transaction) -> None:
    """Remove all settings; the lines of jobs that wait for keys stay."""
    tx.run("moved_settings", "forget_queues")
    tx.run("moved_settings", "forget_breakers")
    tx.run("moved_settings", "forget_keys")
    tx.run("schedule", "remove_all")
