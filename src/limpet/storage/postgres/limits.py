"""How much of a queue or a key may be under way: declare, limit, hold, drain."""

from collections.abc import Mapping

from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate
from limpet.storage.contract.answers import KeyLimit
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import rate_in, rules_of_row, to_json


def declare_queues(tx: Transaction, queues: Mapping[str, QueueRules]) -> None:
    """Keep the rules that the app declares; see `LimitVerbs.declare_queues`."""
    tx.call("pass", False)
    for queue in sorted(queues):
        _, adjusted = _locked(tx, queue)
        write_rules(tx, queue, queues[queue], adjusted)
    tx.rings.add(Topic.READY)


def limit_queue(tx: Transaction, queue: str, rules: QueueRules | None) -> None:
    """Set rules that override the declared ones; see `LimitVerbs.limit_queue`."""
    tx.call("pass", False)
    declared, _ = _locked(tx, queue)
    write_rules(tx, queue, declared, rules or NO_QUEUE_RULES)
    tx.rings.add(Topic.READY)


def _locked(tx: Transaction, queue: str) -> tuple[QueueRules, QueueRules]:
    tx.run("limits", "begin", queue=queue)
    ((declared, adjusted),) = tx.run("limits", "rules", queue=queue)
    return rules_of_row(queue, declared, adjusted)


def write_rules(tx: Transaction, queue: str, declared: QueueRules, adjusted: QueueRules) -> None:
    """Write the rules of a queue, and those in force in the columns that claims read."""
    force = adjusted.over(declared)
    tx.run(
        "limits",
        "write",
        queue=queue,
        declared=to_json(declared),
        adjusted=to_json(adjusted),
        concurrency=force.concurrency,
        step=force.rate and force.rate.step_us,
        burst=force.rate and force.rate.burst,
        weight=force.weight,
    )
    if force.concurrency is not None:
        tx.run("limits", "count", queue=queue)


def hold_queue(tx: Transaction, queue: str, until: int) -> None:
    """Let no job of a queue be claimed for a while; see `LimitVerbs.hold_queue`."""
    tx.call("pass", False)
    tx.run("limits", "hold", queue=queue, until=until)
    tx.rings.add(Topic.READY)


def drain_queue(tx: Transaction, queue: str, draining: bool) -> None:
    """Refuse new jobs for a queue, or accept them again; see `LimitVerbs.drain_queue`."""
    tx.call("pass", False)
    tx.run("limits", "drain", queue=queue, draining=draining)


def limit_key(tx: Transaction, key: str, limit: int | None, rate: Rate | None) -> None:
    """Set the limit of a key, which overrides what jobs name; see `LimitVerbs.limit_key`."""
    tx.call("pass", False)
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    tx.run(
        "limits",
        "key",
        key=key,
        limit=limit,
        rate=None if rate is None else to_json(rate),
    )
    tx.call("turns", [key], [0], now)
    tx.rings.add(Topic.READY)


def key_limit(tx: Transaction, key: str) -> KeyLimit:
    """The limit and rate that were set for a key; see `LimitVerbs.key_limit`."""
    limit, rate = tx.one("limits", "key_limit", key=key) or (None, None)
    return KeyLimit(limit, rate_in(key, rate))
