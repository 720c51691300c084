"""Breakers: what holds the work of some tasks back; see `domain.breaker`."""

from collections.abc import Sequence
from dataclasses import replace

from limpet.domain.breaker import BreakerRules, BreakerState, BreakerStatus, Observed, observed
from limpet.storage.contract.store import Topic
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.store_settings import BreakerPiece, breaker_in
from limpet.storage.records.unreadable import readable


def declare_breakers(tx: Transaction, breakers: Sequence[BreakerRules]) -> None:
    """Keep what the app says; see `BreakerVerbs.declare_breakers`."""
    tx.call("pass", False)
    tx.run("breakers", "alone")
    for rules in sorted(breakers, key=lambda each: each.name):
        known = _locked(tx, rules.name)
        if known is None:
            write(tx, BreakerStatus(rules, BreakerState.CLOSED, 0, 0, 0, None, None))
        elif known.rules != rules:
            write(tx, replace(known, rules=rules))


def breakers(tx: Transaction) -> tuple[BreakerStatus, ...]:
    """Every breaker, by name."""
    return tuple(readable(tx.run("breakers", "all"), lambda row: breaker_in(*row)))


def reset_breaker(tx: Transaction, name: str) -> bool:
    """Close it; see `BreakerVerbs.reset_breaker`."""
    tx.call("pass", False)
    known = _locked(tx, name)
    if known is None:
        return False
    if known.state is not BreakerState.CLOSED:
        ((now,),) = tx.run("recover", "time", given=tx.wall)
        write(tx, BreakerStatus(known.rules, BreakerState.CLOSED, 0, 0, now, None, None))
        tx.rings.add(Topic.READY)
    return True


def tell(tx: Transaction, seen: Sequence[Observed]) -> None:
    """Let breakers know how attempts ended."""
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    for what in sorted(seen, key=lambda each: each.breaker):
        known = _locked(tx, what.breaker)
        if known is not None:
            after = observed(known, what, now)
            write(tx, after)
            if after.state is BreakerState.CLOSED and known.state is not BreakerState.CLOSED:
                tx.rings.add(Topic.READY)


def _locked(tx: Transaction, name: str) -> BreakerStatus | None:
    # One that cannot be read is put anew.
    found = tx.run("breakers", "lock", name=name)
    return next(iter(readable(found, lambda row: breaker_in(name, row[0]))), None)


def write(tx: Transaction, breaker: BreakerStatus) -> None:
    """Keep it, rules and state."""
    rules = breaker.rules
    tx.run(
        "breakers",
        "write",
        name=rules.name,
        piece=BreakerPiece.of(breaker).text(),
        tasks=sorted(rules.tasks),
        state=str(breaker.state),
        probe_at=breaker.probe_at,
        probe_after=rules.probe_after,
    )
