"""The limits of queues: declare, limit, hold, drain; see `contract.shaping`."""

from collections.abc import Mapping

from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.storage.contract.bell import Topic
from limpet.storage.records.texts import rules_of_row, to_json
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction


def text_of(rules: QueueRules) -> str | None:
    """Rules of a queue as the store keeps them; None for no rules."""
    return to_json(rules) if rules != NO_QUEUE_RULES else None


def declare_queues(tx: Transaction, queues: Mapping[str, QueueRules]) -> None:
    """Keep the rules that the app declares; see `LimitVerbs.declare_queues`."""
    must_take_writes(tx)
    for queue, rules in queues.items():
        _, adjusted = _rules(tx, queue)
        write_rules(tx, queue, rules, adjusted)
    tx.bells.add(Topic.READY)


def limit_queue(tx: Transaction, queue: str, rules: QueueRules | None) -> None:
    """Set rules that override the declared ones; see `LimitVerbs.limit_queue`."""
    must_take_writes(tx)
    declared, _ = _rules(tx, queue)
    write_rules(tx, queue, declared, rules or NO_QUEUE_RULES)
    tx.bells.add(Topic.READY)


def _rules(tx: Transaction, queue: str) -> tuple[QueueRules, QueueRules]:
    row = tx.one("limits", "rules", queue=queue)
    return rules_of_row(queue, *row) if row else (NO_QUEUE_RULES, NO_QUEUE_RULES)


def write_rules(tx: Transaction, queue: str, declared: QueueRules, adjusted: QueueRules) -> None:
    """Write the rules of a queue, and those in force that statements read from columns."""
    force = adjusted.over(declared)
    tx.run(
        "limits",
        "write_rules",
        queue=queue,
        declared=text_of(declared),
        adjusted=text_of(adjusted),
        concurrency=force.concurrency,
        weighted=int(force.weight is not None),
    )


def hold_queue(tx: Transaction, queue: str, until: int) -> None:
    """Let no job of a queue be claimed for a while; see `LimitVerbs.hold_queue`."""
    must_take_writes(tx)
    tx.run("limits", "hold", queue=queue, until=until)
    tx.bells.add(Topic.READY)


def hold(tx: Transaction, queue: str, until: int) -> None:
    """Hold a queue because a job snoozed; this never shortens a hold."""
    tx.run("limits", "hold_longer", queue=queue, until=until)


def drain_queue(tx: Transaction, queue: str, draining: bool) -> None:
    """Take in no new jobs, or take them in again; see `LimitVerbs.drain_queue`."""
    must_take_writes(tx)
    tx.run("limits", "drain", queue=queue, draining=int(draining))
