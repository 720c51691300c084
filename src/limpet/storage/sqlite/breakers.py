"""Breakers, which hold back the work of some tasks; see `domain.breaker`."""

from collections.abc import Sequence
from dataclasses import replace

from limpet.domain.breaker import (
    BreakerRules,
    BreakerState,
    BreakerStatus,
    Observed,
    observed,
    tried,
)
from limpet.storage.contract.bell import Topic
from limpet.storage.records.store_settings import BreakerPiece, breaker_in
from limpet.storage.records.unreadable import readable
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction


def declare_breakers(tx: Transaction, breakers: Sequence[BreakerRules]) -> None:
    """Keep the rules that the app declares; see `BreakerVerbs.declare_breakers`."""
    must_take_writes(tx)
    for rules in breakers:
        known = find(tx, rules.name)
        if known is None:
            write(tx, BreakerStatus(rules, BreakerState.CLOSED, 0, 0, 0, None, None))
        elif known.rules != rules:
            write(tx, replace(known, rules=rules))


def breakers(tx: Transaction) -> tuple[BreakerStatus, ...]:
    """Every breaker, by name."""
    return tuple(readable(tx.run("breakers", "all"), lambda row: breaker_in(*row)))


def not_closed(tx: Transaction) -> list[BreakerStatus]:
    """The breakers that hold work back."""
    return readable(tx.run("breakers", "not_closed"), lambda row: breaker_in(*row))


def reset_breaker(tx: Transaction, name: str) -> bool:
    """Close a breaker; see `BreakerVerbs.reset_breaker`."""
    must_take_writes(tx)
    known = find(tx, name)
    if known is None:
        return False
    if known.state is not BreakerState.CLOSED:
        write(tx, BreakerStatus(known.rules, BreakerState.CLOSED, 0, 0, tx.now, None, None))
        tx.bells.add(Topic.READY)
    return True


def record_observed(tx: Transaction, seen: Sequence[Observed]) -> None:
    """Record in their breakers how attempts ended."""
    for what in seen:
        known = find(tx, what.breaker)
        if known is not None:
            now = observed(known, what, tx.now)
            write(tx, now)
            if now.state is BreakerState.CLOSED and known.state is not BreakerState.CLOSED:
                tx.bells.add(Topic.READY)


def probed(tx: Transaction, breaker: BreakerStatus, n: int) -> None:
    """Record the job that was claimed as the breaker's probe."""
    ((job, token),) = tx.run("breakers", "attempt", n=n)
    write(tx, tried(breaker, (job, token), tx.now))


def find(tx: Transaction, name: str) -> BreakerStatus | None:
    """One breaker; None also if it cannot be read, so that it is written anew."""
    found = tx.run("breakers", "find", name=name)
    return next(iter(readable(found, lambda row: breaker_in(name, row[0]))), None)


def write(tx: Transaction, breaker: BreakerStatus) -> None:
    """Write a breaker, rules and state."""
    body = BreakerPiece.of(breaker).text()
    tx.run("breakers", "write", name=breaker.rules.name, state=breaker.state, body=body)
