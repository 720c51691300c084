"""Breakers hold the work of some tasks back; see `domain.breaker`."""

from collections.abc import Sequence
from dataclasses import replace

from limpet.domain.breaker import BreakerRules, BreakerState, BreakerStatus, Observed, observed
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.store_settings import BreakerPiece, breaker_in
from limpet.storage.records.unreadable import readable


def declare_breakers(tx: Transaction, breakers: Sequence[BreakerRules]) -> None:
    """Keep the breakers that the app declares; see `BreakerVerbs.declare_breakers`."""
    tx.call("pass", False)
    tx.run("breakers", "alone")
    for rules in sorted(breakers, key=lambda declared: declared.name):
        known = _locked(tx, rules.name)
        if known is None:
            write(tx, BreakerStatus(rules, BreakerState.CLOSED, 0, 0, 0, None, None))
        elif known.rules != rules:
            write(tx, replace(known, rules=rules))


def breakers(tx: Transaction) -> tuple[BreakerStatus, ...]:
    """Every breaker, by name."""
    return tuple(readable(tx.run("breakers", "all"), lambda row: breaker_in(*row)))


def reset_breaker(tx: Transaction, name: str) -> bool:
    """Close a breaker; see `BreakerVerbs.reset_breaker`."""
    tx.call("pass", False)
    known = _locked(tx, name)
    if known is None:
        return False
    if known.state is not BreakerState.CLOSED:
        ((now,),) = tx.run("recover", "time", given=tx.wall)
        write(tx, BreakerStatus(known.rules, BreakerState.CLOSED, 0, 0, now, None, None))
        tx.rings.add(Topic.READY)
    return True


def record_observed(tx: Transaction, observations: Sequence[Observed]) -> None:
    """Count how attempts ended, for their breakers."""
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    for attempt in sorted(observations, key=lambda observation: observation.breaker):
        known = _locked(tx, attempt.breaker)
        if known is not None:
            after = observed(known, attempt, now)
            write(tx, after)
            if after.state is BreakerState.CLOSED and known.state is not BreakerState.CLOSED:
                tx.rings.add(Topic.READY)


def _locked(tx: Transaction, name: str) -> BreakerStatus | None:
    # A breaker that cannot be read counts as missing, and is written anew.
    found = tx.run("breakers", "lock", name=name)
    return next(iter(readable(found, lambda row: breaker_in(name, row[0]))), None)


def write(tx: Transaction, breaker: BreakerStatus) -> None:
    """Write a breaker, its rules and its state."""
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
