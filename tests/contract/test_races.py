"""Races between real processes: whoever wins, there is one outcome, and everyone is told it.

Only stores that several processes can open take part.
"""

from contract.driver import LEASE, Holder, add, add_many, counts, get, told
from contract.racers import (
    cancel,
    claim,
    complete,
    end_and_recover,
    on_processes,
    racers,
    sweep,
)

from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.state import State
from limpet.domain.transition import Cancel
from limpet.storage.contract.store import Store

pytestmark = on_processes


def test_one_job_goes_to_one_of_many_claimers(shared: Store, url: str) -> None:
    rounds, number = 150, 4
    holders = [Holder(shared) for _ in range(number)]
    with racers(url, number) as race:
        for seq in range(1, rounds + 1):
            job = add(shared)
            answers = race.round(*((claim, (holder.id, seq, holder.want())) for holder in holders))
            won = [each.lease for answer in answers for each in answer.claimed]
            assert [(lease.job, lease.token) for lease in won] == [(job, 1)]
            assert get(shared, job).session == won[0].session
    assert counts(shared) == {State.RUNNING: rounds}


def test_many_jobs_go_to_many_claimers_once_each(shared: Store, url: str) -> None:
    number = 4
    holders = [Holder(shared) for _ in range(number)]
    with racers(url, number) as race:
        for seq in range(1, 61):
            jobs = add_many(shared, 10)
            answers = race.round(*((claim, (holder.id, seq, holder.want(5))) for holder in holders))
            won = [each.lease.job for answer in answers for each in answer.claimed]
            assert sorted(won) == jobs


def test_recover_against_complete_has_one_outcome(shared: Store, url: str) -> None:
    with racers(url, 2) as race:
        for _ in range(200):
            job = add(shared)
            holder = Holder(shared)
            lease = holder.take(begin=True)
            settled, recovered = race.round(
                (complete, (holder.id, 2, [lease])), (end_and_recover, (holder.id,))
            )
            kept = get(shared, job)
            if settled.rejected:
                assert [each.answer for each in settled.rejected] == ["lost"]
                assert recovered.ready == 1
                assert (kept.state, kept.counters) == (State.READY, Counters(orphans=1))
                assert EventName.LEASE_LOST in told(shared, job)
                shared.cancel(job)
            else:
                assert recovered.jobs == 0
                assert (kept.state, kept.counters) == (State.SUCCEEDED, Counters())


def test_cancel_against_claim_has_one_outcome(shared: Store, url: str) -> None:
    holder = Holder(shared)
    with racers(url, 2) as race:
        for _ in range(200):
            job = add(shared)
            holder.seq += 1
            claimed, state = race.round(
                (claim, (holder.id, holder.seq, holder.want())), (cancel, (job,))
            )
            leases = [each.lease for each in claimed.claimed]
            if leases:
                assert [lease.job for lease in leases] == [job]
                assert state is State.RUNNING
                assert holder.renew().cancels == tuple(leases)
                assert holder.settle(Cancel(leases[0])) == ()
            else:
                assert state is State.CANCELLED
            assert get(shared, job).state is State.CANCELLED


def test_two_sweepers_recover_each_job_once(shared: Store, url: str) -> None:
    number = 5
    with racers(url, 2, ahead=LEASE) as race:
        for _ in range(120):
            jobs = add_many(shared, number)
            holder = Holder(shared)
            leases = [each.lease for each in holder.claim(number)]
            holder.renew(begun=leases)
            assert sum(race.round((sweep, ()), (sweep, ()))) == number
            for job in jobs:
                kept = get(shared, job)
                assert (kept.state, kept.counters) == (State.READY, Counters(orphans=1))
                assert told(shared, job).count(EventName.RECOVERED) == 1
                shared.cancel(job)
