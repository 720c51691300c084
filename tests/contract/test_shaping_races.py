"""Races for what only one may have: a unique, a turn, a place, the last child, a flow, a probe.

Threads race at every store; processes only at those that several processes can open.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    new_id,
    new_job,
    state,
    states,
    told,
    total,
)
from contract.families import child, flow
from contract.racers import (
    cancel,
    claim,
    commit,
    complete,
    enqueue,
    exchange,
    on_processes,
    promote,
    racers,
    retry,
)

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.errors import QueueFull
from limpet.domain.event import EventName
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.state import State
from limpet.domain.transition import AwaitChildren, Complete, Fail
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

BLOCKED, READY, RUNNING = State.BLOCKED, State.READY, State.RUNNING
CANCELLED, SUCCEEDED = State.CANCELLED, State.SUCCEEDED


# -- threads


def test_of_fifty_who_enqueue_one_unique_at_once_one_succeeds(store: Store) -> None:
    number = 50
    start = Barrier(number)
    jobs = [new_job(unique="only") for _ in range(number)]

    def hand_in(at: int) -> Receipt:
        start.wait(60)
        (receipt,) = store.enqueue([jobs[at]])
        return receipt

    with ThreadPoolExecutor(number) as pool:
        receipts = list(pool.map(hand_in, range(number)))
    (won,) = [each for each in receipts if each.outcome == "new"]
    assert {each.outcome for each in receipts} == {"new", "duplicate"}
    assert {each.job for each in receipts} == {won.job}
    assert counts(store) == {READY: 1}


def test_of_many_who_replace_each_other_at_once_one_is_left(store: Store) -> None:
    number = 20
    start = Barrier(number)
    debounce = Rules(unique_until=UniqueUntil.STARTED, replaces=True)
    jobs = [new_job(unique="only", rules=debounce) for _ in range(number)]

    def hand_in(at: int) -> str:
        start.wait(60)
        return store.enqueue([jobs[at]])[0].outcome

    with ThreadPoolExecutor(number) as pool:
        assert set(pool.map(hand_in, range(number))) == {"new"}
    assert counts(store) == {READY: 1, CANCELLED: number - 1}


def test_of_many_who_enqueue_one_key_at_once_one_has_the_turn(store: Store) -> None:
    number = 20
    start = Barrier(number)

    def hand_in(_: int) -> State:
        start.wait(60)
        return state(store, add(store, key="k"))

    with ThreadPoolExecutor(number) as pool:
        assert sorted(pool.map(hand_in, range(number))) == [BLOCKED] * (number - 1) + [READY]
    holder = Holder(store)
    for _ in range(number):
        holder.settle(Complete(holder.take()))
    assert counts(store) == {SUCCEEDED: number}


def test_flows_that_are_committed_at_once_do_not_go_over_a_cap(store: Store) -> None:
    number = 12
    start = Barrier(number)
    flows = [new_id() for _ in range(number)]
    for each in flows:
        store.stage(each, 0, [new_job() for _ in range(3)])

    def hand_in(at: int) -> bool:
        start.wait(60)
        try:
            return store.commit(flows[at], 1, caps={"default": 10})
        except QueueFull:
            return False

    with ThreadPoolExecutor(number) as pool:
        assert sum(pool.map(hand_in, range(number))) == 3
    while store.promote().more:
        pass
    assert counts(store) == {READY: 9}


# -- processes


@on_processes
def test_never_two_of_a_key_run_at_once_whoever_claims(shared: Store, url: str) -> None:
    number, keys = 4, 5
    holders = [Holder(shared) for _ in range(number)]
    jobs = [new_job(key=f"k{n % keys}") for n in range(60)]
    shared.enqueue(jobs)
    key_of = {job.id: job.key for job in jobs}
    order = defaultdict(list)
    held: list[list[Complete]] = [[] for _ in holders]
    with racers(url, number) as race:
        for seq in range(1, 200):
            answers = race.round(
                *(
                    (exchange, (holder.id, seq, done, holder.want(2)))
                    for holder, done in zip(holders, held, strict=True)
                )
            )
            held = [[Complete(each.lease) for each in answer.claimed] for answer in answers]
            running = [key_of[each.lease.job] for done in held for each in done]
            assert len(running) == len(set(running))
            for done in held:
                for each in done:
                    order[key_of[each.lease.job]].append(each.lease.job)
            if not running:
                break
    assert counts(shared) == {SUCCEEDED: len(jobs)}
    for key, found in order.items():
        assert found == [job.id for job in jobs if job.key == key]


@on_processes
def test_never_more_of_a_queue_run_than_its_concurrency(shared: Store, url: str) -> None:
    number = 4
    holders = [Holder(shared) for _ in range(number)]
    add_many(shared, 40)
    shared.limit_queue("default", QueueRules(concurrency=3))
    held: list[list[Complete]] = [[] for _ in holders]
    with racers(url, number) as race:
        for seq in range(1, 100):
            answers = race.round(
                *(
                    (exchange, (holder.id, seq, done, holder.want(2)))
                    for holder, done in zip(holders, held, strict=True)
                )
            )
            held = [[Complete(each.lease) for each in answer.claimed] for answer in answers]
            running = sum(map(len, held))
            assert running <= 3
            if not running:
                break
    assert counts(shared) == {SUCCEEDED: 40}


@on_processes
def test_rate_is_given_out_once(shared: Store, url: str) -> None:
    number = 4
    with racers(url, number) as race:
        for at in range(15):
            queue = f"queue-{at}"
            add_many(shared, 12, queue=queue)
            shared.limit_queue(queue, QueueRules(rate=Rate(5, SECOND, 5)))
            holders = [Holder(shared) for _ in range(number)]
            answers = race.round(
                *((claim, (holder.id, 1, holder.want(3, {queue: 3}))) for holder in holders)
            )
            assert sum(len(answer.claimed) for answer in answers) == 5


@on_processes
def test_breaker_is_probed_by_one(shared: Store, url: str) -> None:
    shared.declare_breakers([BreakerRules("crm", frozenset({"task"}), 0.5, 1, SECOND, SECOND)])
    add_many(shared, 60)
    with racers(url, 3, ahead=timedelta(seconds=1)) as race:
        for _ in range(12):
            holders = [Holder(shared) for _ in range(3)]
            holders[0].exchange(observed=[Observed("crm", 0, 1)])
            answers = race.round(
                *((claim, (holder.id, holder.seq + 1, holder.want(3))) for holder in holders)
            )
            assert sum(len(answer.claimed) for answer in answers) == 1
            shared.reset_breaker("crm")


@on_processes
def test_two_sweepers_write_a_committed_flow_out_once(shared: Store, url: str) -> None:
    with racers(url, 2) as race:
        for _ in range(20):
            name, jobs = new_id(), [new_job() for _ in range(30)]
            for place in range(3):
                shared.stage(name, place, jobs[10 * place : 10 * place + 10])
            shared.commit(name, 3)
            before = total(shared, "enqueue")
            race.round((promote, ()), (promote, ()))
            assert states(shared, [job.id for job in jobs]) == [READY] * 30
            assert total(shared, "enqueue") - before == 30


@on_processes
def test_flow_is_committed_by_one(shared: Store, url: str) -> None:
    with racers(url, 2) as race:
        for at in range(15):
            name = new_id()
            shared.stage(name, 0, [new_job(queue=f"queue-{at}")])
            assert sorted(race.round((commit, (name, 1)), (commit, (name, 1)))) == [False, True]
            promote(shared)
            assert counts(shared, f"queue-{at}") == {READY: 1}


@on_processes
def test_last_two_children_settled_at_once_make_the_parent_ready_once(
    shared: Store, url: str
) -> None:
    with racers(url, 2) as race:
        for _ in range(50):
            top, _ = flow(shared, 2)
            holders = [Holder(shared), Holder(shared)]
            leases = [holder.take_of("default") for holder in holders]
            race.round(
                *(
                    (complete, (holder.id, 2, [lease]))
                    for holder, lease in zip(holders, leases, strict=True)
                )
            )
            assert (state(shared, top), get(shared, top).pending) == (READY, 0)
            other = Holder(shared)
            assert other.claim_ids() == [top]
            other.settle(Complete(shared.held(other.id)[0]))


@on_processes
def test_two_children_that_fail_at_once_fail_the_parent_once(shared: Store, url: str) -> None:
    with racers(url, 2) as race:
        for _ in range(40):
            top, below = flow(shared, 4)
            holders = [Holder(shared), Holder(shared)]
            leases = [holder.take_of("default") for holder in holders]
            race.round(
                *(
                    (exchange, (holder.id, 2, [Fail(lease, BOOM)], None))
                    for holder, lease in zip(holders, leases, strict=True)
                )
            )
            promote(shared)
            assert state(shared, top) is State.FAILED
            assert told(shared, top).count(EventName.FAILED) == 1
            assert sorted(states(shared, below)) == [CANCELLED] * 2 + [State.FAILED] * 2


@on_processes
def test_parent_cancelled_against_its_last_child_is_cancelled_and_the_child_done(
    shared: Store, url: str
) -> None:
    with racers(url, 2) as race:
        for _ in range(40):
            top, (only,) = flow(shared, 1)
            holder = Holder(shared)
            lease = holder.take_of("default")
            settled, after = race.round((complete, (holder.id, 2, [lease])), (cancel, (top,)))
            assert (settled.rejected, after) == ((), CANCELLED)
            assert states(shared, [top, only]) == [CANCELLED, SUCCEEDED]


@on_processes
def test_parent_cancelled_while_a_child_is_claimed_leaves_no_child_behind(
    shared: Store, url: str
) -> None:
    holder = Holder(shared)
    with racers(url, 2) as race:
        for _ in range(40):
            top, below = flow(shared, 3)
            holder.seq += 1
            claimed, _ = race.round(
                (claim, (holder.id, holder.seq, holder.want(2))), (cancel, (top,))
            )
            leases = [each.lease for each in claimed.claimed]
            assert set(holder.renew().cancels) == set(leases)
            for job in below:
                expected = RUNNING if job in {lease.job for lease in leases} else CANCELLED
                assert state(shared, job) is expected
            holder.settle(*map(Complete, leases))


@on_processes
def test_job_cancelled_while_it_fans_out_leaves_no_child_behind(shared: Store, url: str) -> None:
    with racers(url, 2) as race:
        for _ in range(40):
            job, holder, name = add(shared), Holder(shared), new_id()
            lease = holder.take()
            below = [child(job) for _ in range(3)]
            shared.stage(name, 0, below)
            race.round(
                (exchange, (holder.id, 2, [AwaitChildren(lease, name, 1, 3)], None)),
                (cancel, (job,)),
            )
            promote(shared)
            assert state(shared, job) is CANCELLED
            assert set(shared.states([each.id for each in below]).values()) <= {CANCELLED}


@on_processes
def test_retry_against_a_newer_one_of_its_unique_has_one_winner(shared: Store, url: str) -> None:
    holder = Holder(shared)
    with racers(url, 2) as race:
        for at in range(40):
            old, new = (new_job(unique=f"unique-{at}") for _ in range(2))
            shared.enqueue([old])
            holder.settle(Fail(holder.take(), BOOM))
            round_, (receipt,) = race.round((retry, (old.id, 1)), (enqueue, ([new],)))
            won = (round_ == 2, receipt.outcome == "new")
            assert won in ((True, False), (False, True))
            if won[0]:
                assert (receipt.outcome, receipt.job) == ("duplicate", old.id)
            holder.settle(Complete(holder.take()))
            assert holder.claim() == ()


@on_processes
def test_relaunch_by_two_sweepers_and_a_person_opens_one_round(shared: Store, url: str) -> None:
    holder = Holder(shared)
    now = FakeClock().wall()
    with racers(url, 3, ahead=timedelta(seconds=1)) as race:
        for _ in range(25):
            job = add(shared)
            holder.settle(Fail(holder.take(), BOOM, now + SECOND))
            answers = race.round((promote, ()), (promote, ()), (retry, (job, 1)))
            assert answers[2] == 2
            kept = get(shared, job)
            assert (kept.state, kept.round, kept.relaunch_at) == (READY, 2, None)
            assert len(shared.events(job)) == 2
            shared.cancel(job)


@on_processes
def test_children_done_while_their_flow_is_written_out_are_all_counted(
    shared: Store, url: str
) -> None:
    holder = Holder(shared)
    with racers(url, 2) as race:
        for _ in range(3):
            top = new_job(queue="parents", rules=Rules(children=CHUNK))
            name = new_id()
            shared.stage(name, 0, [child(top.id) for _ in range(CHUNK)])
            shared.stage(name, 1, [top])
            shared.commit(name, 2)
            shared.promote()
            settled: list[Complete] = []
            want = holder.want(250, {"default": 250})
            while settled or shared.job(top.id) is None or counts(shared).get(READY, 0):
                holder.seq += 1
                answer, _ = race.round(
                    (exchange, (holder.id, holder.seq, settled, want)), (promote, ())
                )
                settled = [Complete(each.lease) for each in answer.claimed]
            assert (state(shared, top.id), get(shared, top.id).pending) == (READY, 0)
            holder.settle(Complete(holder.take_of("parents")))
