"""What was decided about held jobs, as the function `shift` carries it out."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from limpet.domain.cause import Cause, Requested
from limpet.domain.state import FINAL, State
from limpet.storage.base import Topic
from limpet.storage.outcome import Decision, Held
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.texts import error_of, to_json

_RINGS: dict[State, Topic] = {State.READY: Topic.READY} | dict.fromkeys(FINAL, Topic.DONE)


class HeldJob(NamedTuple):
    """A held job, and what may be asked about it beside its row."""

    row: Held
    options: str
    requested: str | None

    def has_orphan_hook(self, _: Held) -> bool:
        return bool(msgspec.json.decode(self.options).get("orphan_hook"))

    def request(self, _: Held) -> Cause:
        return error_of(self.requested) or Requested()


def moves(tx: Transaction, decided: Sequence[tuple[Held, Decision]]) -> str | None:
    """The decisions as JSON for `shift`; None where there are none."""
    tx.rings.update(_RINGS[each.target] for _, each in decided if each.target in _RINGS)
    listed = [_move(row, decision) for row, decision in decided]
    return to_json(listed) if listed else None


def _move(row: Held, decision: Decision) -> dict[str, Any]:
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
        "told": [{"event": told.event, "cause": _text(told.cause)} for told in decision.told],
    }


def _text(cause: Cause | None) -> str | None:
    return None if cause is None else to_json(cause.record())
