"""The hot path: settle and claim in one step, with the same answer for the same `seq`."""

from collections.abc import Sequence

import msgspec

from limpet.domain.breaker import Observed
from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.permit import PassedOver
from limpet.domain.session import Standing
from limpet.domain.transition import Settlement
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.refusals import (
    exchange_forgotten,
    exchange_too_old,
    of_texts,
    session_not_known,
)
from limpet.storage.contract.store import Want
from limpet.storage.records.unreadable import NONSENSE
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.permits import encode_gate
from limpet.storage.redis.rows import claimed_alone, rejected_of
from limpet.storage.redis.settle import encode_settlements

_NOT_KNOWN, _TOO_OLD, _FORGOTTEN = 1, 2, 3

_jobs = msgspec.msgpack.Decoder(tuple[ClaimedJob, ...]).decode


@of_texts
def exchange(
    link: RedisLink,
    session: str,
    seq: int,
    settlements: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    observed: Sequence[Observed] = (),
) -> Exchanged:
    """Settle and claim; see `HolderVerbs.exchange`."""
    batch = encode_settlements(session, settlements)
    code, *answer = link.call(
        "exchange",
        session,
        seq,
        batch.number,
        batch.places or False,
        batch.others,
        encode_leases(begun),
        _pools(want) if want else False,
        [
            (seen.breaker, seen.succeeded, seen.failed, as_text(packed(seen.attempts)))
            for seen in observed
        ],
        encode_gate(want.gate) if want and want.gate else False,
        texts=batch.texts,
    )
    if code == _NOT_KNOWN:
        raise session_not_known(session)
    if code == _TOO_OLD:
        raise exchange_too_old(session, seq, answer[0])
    if code == _FORGOTTEN:
        raise exchange_forgotten(session, seq, answer[0])
    link.answered[session] = seq
    standing, rejected, claimed, quiet, next_at, unfinished, passed_over = answer
    return Exchanged(
        Standing(standing.decode()),
        rejected_of(rejected),
        _claimed(link, session, seq, claimed),
        quiet=bool(quiet),
        next_at=int(next_at) if next_at else None,
        unfinished=bool(unfinished),
        passed_over=PassedOver(passed_over),
    )


def _claimed(link: RedisLink, session: str, seq: int, claimed: bytes) -> tuple[ClaimedJob, ...]:
    try:
        return _jobs(claimed)
    except NONSENSE:  # nonsense in one of the jobs must not cost the others
        rows = link.call("claimed", session, seq)[1]
        return tuple(claimed_alone(*row) for row in rows)


def encode_leases(leases: Sequence[Lease]) -> list[tuple[str, int]]:
    """Leases of the calling session, as the scripts read them."""
    return [(lease.job, lease.token) for lease in leases]


def _pools(want: Want) -> list[tuple[str, int, int, dict[str, int]]]:
    return [(pool.tasks, pool.total, pool.suspects, dict(pool.slots)) for pool in want.pools]
