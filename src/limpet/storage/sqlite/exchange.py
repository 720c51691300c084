"""The hot path: settle and claim in one step, with the same answer for the same `seq`."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from limpet.domain.breaker import Observed
from limpet.domain.lease import Digest, Lease, digest
from limpet.domain.permit import PassedOver
from limpet.domain.session import Standing
from limpet.domain.transition import Rejected, Settlement
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.refusals import (
    answer_forgotten,
    exchange_forgotten,
    exchange_too_old,
    session_not_known,
)
from limpet.storage.contract.store import Want
from limpet.storage.records.texts import to_json
from limpet.storage.sqlite.breakers import record_observed
from limpet.storage.sqlite.claim import Claimed, claim, claimed
from limpet.storage.sqlite.fence import mark_begun
from limpet.storage.sqlite.session import find, standing
from limpet.storage.sqlite.settle import settle
from limpet.storage.sqlite.transaction import Transaction


def exchange(
    tx: Transaction,
    session: str,
    seq: int,
    settlements: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    observed: Sequence[Observed],
) -> Exchanged:
    """Settle and claim; see `HolderVerbs.exchange`."""
    row = find(tx, session)
    if row is None:
        raise session_not_known(session)
    where = standing(tx, row)
    if seq == row.seq and seq > 0:
        return _repeat(tx, session, seq, where)
    if seq < max(row.seq, 1):
        raise exchange_too_old(session, seq, row.seq)
    if seq > row.seq + 1:
        raise exchange_forgotten(session, seq, row.seq)
    alive = where is not Standing.DEAD
    if alive:
        mark_begun(tx, session, begun)
    rejected, given_up = settle(tx, session, settlements, alive=alive)
    if observed:
        record_observed(tx, observed)
    claims = want is not None and where is Standing.LIVE and not row.closing
    took = claim(tx, session, want) if want is not None and claims else Claimed([])
    jobs = claimed(tx, session, took.numbers)
    taken = digest([(job, token) for job, _, token in [claimed_job.lease for claimed_job in jobs]])
    _advance(tx, session, seq, taken - given_up)
    body: dict[str, object] = {
        "rejected": [(r.lease.job, r.lease.session, r.lease.token, r.answer) for r in rejected],
        "claimed": took.numbers,
    }
    if took.next_at is not None or tx.unfinished or took.passed_over:
        body |= {
            "next_at": took.next_at,
            "unfinished": tx.unfinished,
            "passed_over": took.passed_over,
        }
    tx.run("exchange", "keep", session=session, seq=seq, body=to_json(body))
    return Exchanged(
        where,
        tuple(rejected),
        jobs,
        next_at=took.next_at,
        unfinished=tx.unfinished,
        passed_over=took.passed_over,
    )


def _advance(tx: Transaction, session: str, seq: int, change: Digest) -> None:
    tx.run(
        "exchange",
        "advance",
        session=session,
        seq=seq,
        count=change.count,
        total=change.total,
    )


class _Body(msgspec.Struct):
    rejected: list[tuple[str, str, int, Literal["already", "gone", "lost"]]]
    claimed: list[int]
    next_at: int | None = None
    unfinished: bool = False
    passed_over: PassedOver = PassedOver.NOTHING


def _repeat(tx: Transaction, session: str, seq: int, where: Standing) -> Exchanged:
    kept: Any = tx.one("exchange", "answer", session=session, seq=seq)
    if kept is None:
        raise answer_forgotten(session, seq)
    body = msgspec.json.decode(kept[0], type=_Body)
    rejected = tuple(Rejected(Lease(j, s, t), a) for j, s, t, a in body.rejected)
    # The jobs themselves are read again; a dead session has no jobs left to run.
    jobs = () if where is Standing.DEAD else claimed(tx, session, body.claimed)
    return Exchanged(
        where,
        rejected,
        jobs,
        next_at=body.next_at,
        unfinished=body.unfinished,
        passed_over=body.passed_over,
    )
