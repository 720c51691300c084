"""held, and the digest: what the store thinks a session holds is what it holds."""

from collections.abc import Callable

import pytest
from contract.driver import BOOM, KILLED, Holder, add_many, get, new_id, session_of

from limpet.domain.cause import Drained
from limpet.domain.lease import Digest, Lease, digest
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    SnoozeUntil,
)
from limpet.storage.contract.store import Store

MOVES: dict[str, Callable[[Store, Holder, Lease], object]] = {
    "complete": lambda _, holder, lease: holder.settle(Complete(lease)),
    "fail": lambda _, holder, lease: holder.settle(Fail(lease, BOOM)),
    "retry": lambda _, holder, lease: holder.settle(RetryAt(lease, 0, BOOM)),
    "snooze": lambda _, holder, lease: holder.settle(SnoozeUntil(lease, 0)),
    "quarantine": lambda _, holder, lease: holder.settle(Quarantine(lease, BOOM)),
    "settle release": lambda _, holder, lease: holder.settle(Release(lease, Drained())),
    "release": lambda _, holder, lease: holder.release(lease, cause=Drained()),
    "cancel": lambda _, holder, lease: holder.settle(Cancel(lease)),
    "orphan": lambda _, holder, lease: holder.settle(
        Orphan(lease, KILLED, begun=True, alone=False)
    ),
    "claim in turn": lambda _, holder, lease: holder.exchange(Complete(lease), want=holder.want(2)),
    "stale settle": lambda _, holder, lease: holder.settle(Complete(lease._replace(token=0))),
    "settle twice": lambda _, holder, lease: holder.settle(Complete(lease), Complete(lease)),
    "repeat of a seq": lambda store, holder, lease: store.exchange(
        holder.id, holder.seq, [Complete(lease)], holder.want()
    ),
    "cancel requested": lambda store, _, lease: store.cancel(lease.job),
    "renewal": lambda _, holder, lease: holder.renew(begun=[lease]),
    "stranger settles": lambda store, _, lease: Holder(store).settle(Complete(lease)),
    "recovered": lambda _, holder, lease: holder.vanish(),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_digest_is_that_of_what_is_held_after_any_move(
    store: Store, move: Callable[[Store, Holder, Lease], object]
) -> None:
    add_many(store, 6)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim(4)]
    move(store, holder, leases[2])
    held = store.held(holder.id)
    assert holder.renew().digest == digest((lease.job, lease.token) for lease in held)
    assert session_of(store, holder.id).holds == len(held)
    for lease in held:
        job = get(store, lease.job)
        assert (job.session, job.token) == (holder.id, lease.token)


def test_held_lists_leases_in_the_order_of_the_jobs(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    leases = tuple(each.lease for each in holder.claim())
    assert store.held(holder.id) == leases


def test_session_without_jobs_holds_nothing(store: Store) -> None:
    holder = Holder(store)
    assert store.held(holder.id) == ()
    assert store.held(new_id()) == ()
    assert holder.renew().digest == Digest()


def test_lost_answer_shows_in_the_digest_and_can_be_handed_back(store: Store) -> None:
    add_many(store, 2)
    holder = Holder(store)
    known = holder.take()
    holder.claim(1)  # the answer is lost
    assert holder.renew().digest != digest([(known.job, known.token)])
    unknown = [lease for lease in store.held(holder.id) if lease != known]
    assert store.release(holder.id, unknown, Drained()) == ()
    assert holder.renew().digest == digest([(known.job, known.token)])
