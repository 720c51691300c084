"""Decisions about held jobs, as the SQL function `shift` carries them out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from limpet.domain.cause import Cause, Raised
from limpet.domain.errors import FlowIncomplete
from limpet.domain.state import FINAL, Move, State
from limpet.domain.transition import AwaitChildren, Fail, Settlement, SnoozeUntil
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres.flow import commit_staged, drop
from limpet.storage.postgres.held import HeldJob
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json
from limpet.storage.sql.outcome import Decision, HeldRow, decide

_RINGS: dict[State, Topic] = {State.READY: Topic.READY} | dict.fromkeys(FINAL, Topic.DONE)


def settled(tx: Transaction, job: HeldJob, settlement: Settlement) -> dict[str, Any]:
    """What a settlement does to a held job, as `shift` carries it out."""
    row, decision = job.row, decide(job.row, settlement, job)
    more: dict[str, int | None] = {}
    match settlement:
        case AwaitChildren(flow=flow) if decision.is_final:
            drop(tx, flow)
        case AwaitChildren(flow=flow, chunks=chunks, children=children):
            if commit_staged(tx, flow, chunks):
                more = {"pending": children}
            else:
                # The job fails, because a refused exchange would be repeated for ever.
                error = Raised("FlowIncomplete", str(FlowIncomplete(flow)))
                failed = decide(row, Fail(row.lease, error), job)
                decision = replace(failed, settled=Move.FAN_OUT)
        case Fail(relaunch_at=at) if not row.cancel_requested:
            more = {"relaunch_at": at}
        case SnoozeUntil(at=at, holds=True):
            more = {"holds": at}
    return move(tx, row, decision) | more


def moves(tx: Transaction, decided: Sequence[tuple[HeldRow, Decision]]) -> str | None:
    """The decisions as JSON for `shift`; None where there are none."""
    return listed([move(tx, row, decision) for row, decision in decided])


def listed(moved: Sequence[dict[str, Any]]) -> str | None:
    """Moves as JSON; None where there are none."""
    return to_json(moved) if moved else None


def move(tx: Transaction, row: HeldRow, decision: Decision) -> dict[str, Any]:
    """One decision, as `shift` carries it out."""
    if decision.target in _RINGS:
        tx.rings.add(_RINGS[decision.target])
    return {
        "id": row.lease.job,
        "move": decision.move,
        "target": decision.target,
        "holder": decision.holder,
        "settled": decision.settled,
        "sort_key": decision.sort_key,
        "ready_at": decision.ready_at,
        "failures": decision.counters.failures,
        "orphans": decision.counters.orphans,
        "strikes": decision.counters.strikes,
        "suspect": decision.suspect,
        "last_run": decision.last_run,
        "expires_at": decision.expires_at,
        "error": _text(decision.error),
        "entries": [
            {"event": entry.event, "cause": _text(entry.cause)} for entry in decision.entries
        ],
    }


def _text(cause: Cause | None) -> str | None:
    return None if cause is None else to_json(cause.record())
