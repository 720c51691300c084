"""Races for the room of a host: a herd that asks in the same moment does not all pass.

Threads race at every store; processes only at those that several processes can open.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from contract.driver import BACKENDS, KILLED, add, add_many, counts
from contract.gates import CORE, ROOM, Gated
from contract.racers import claim, end_and_recover, exchange, promote, racers, take_permit
from contract.test_permits import caller

from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store, Want
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

on_processes = pytest.mark.not_on("sqlite-memory", "a store in memory has no second process")
SHARED = sorted(set(BACKENDS) - {"sqlite-memory"})
THREE = ROOM._replace(cpu=3_000)


def test_of_twenty_callers_at_once_as_many_are_admitted_as_fit(store: Store) -> None:
    callers = [caller(store) for _ in range(20)]
    start = Barrier(20)

    def ask(session: str) -> bool:
        start.wait(30)
        return store.take_permit(session, CORE, THREE)

    with ThreadPoolExecutor(20) as pool:
        given = list(pool.map(ask, callers))
    assert given.count(True) == 3
    assert {each.holder for each in store.permits()} == {
        session for session, got in zip(callers, given, strict=True) if got
    }


def test_of_twenty_sessions_at_once_as_many_jobs_begin_as_fit(store: Store) -> None:
    add_many(store, 20, task="render")
    sessions = [Gated(store, room=THREE) for _ in range(20)]
    start = Barrier(20)

    def ask(session: Gated) -> int:
        start.wait(30)
        return len(session.gated(total=2))

    with ThreadPoolExecutor(20) as pool:
        given = sum(pool.map(ask, sessions))
    # Who found another at the gate of this host may have been given nothing, and asks again.
    for session in sessions:
        given += len(session.gated(total=2))
    assert given == 3
    assert counts(store)[State.RUNNING] == 3
    assert len(store.permits()) == 3


@on_processes
@pytest.mark.parametrize("backend", SHARED)
def test_room_that_becomes_free_is_given_once_among_processes(backend: str, tmp_path: Path) -> None:
    url = BACKENDS[backend](tmp_path)
    store = open_store(url, FakeClock())
    store.migrate()
    room = ROOM._replace(cpu=1_000)
    rounds = 15
    add_many(store, 2 * rounds, task="render")
    one, two = Gated(store, room=room), Gated(store, room=room)
    with racers(url, 3) as racing:
        for _ in range(rounds):
            first = caller(store)
            second = caller(store)
            (held,) = one.gated(total=1) or two.gated(total=1)
            holder, other = (one, two) if held.lease.session == one.id else (two, one)
            answers = racing.round(
                (exchange, (holder.id, holder.seq + 1, [Complete(held.lease)], None)),
                (claim, (other.id, other.seq + 1, Want((other.pool(1),), other.gate()))),
                (take_permit, (first, CORE, room)),
            )
            holder.seq += 1
            other.seq += 1
            won = len(answers[1].claimed) + answers[2]
            assert won <= 1
            if not won:
                assert store.take_permit(second, CORE, room)
            assert len(store.permits()) == 1
            for lease in (job.lease for job in answers[1].claimed):
                other.settle(Complete(lease))
            for session in (first, second):
                end_and_recover(store, session)
            assert store.permits() == ()
    assert store.invariants() == ()
    store.close()


@on_processes
@pytest.mark.parametrize("backend", SHARED)
def test_of_claims_in_several_processes_one_has_the_last_room(backend: str, tmp_path: Path) -> None:
    url = BACKENDS[backend](tmp_path)
    store = open_store(url, FakeClock())
    store.migrate()
    add_many(store, 100, task="render")
    holders = [Gated(store, room=ROOM._replace(cpu=1_000)) for _ in range(4)]
    with racers(url, 4) as racing:
        for _ in range(25):
            wants = [Want((each.pool(1),), each.gate()) for each in holders]
            asked = [
                (each.id, each.seq + 1, want) for each, want in zip(holders, wants, strict=True)
            ]
            answers = racing.round(*((claim, each) for each in asked))
            leases = [job.lease for answer in answers for job in answer.claimed]
            assert [each.holder for each in store.permits()] == [each.job for each in leases]
            assert len(leases) == 1
            for holder in holders:
                holder.seq += 1
                holder.settle(*(Complete(each) for each in leases if each.session == holder.id))
    store.close()


@on_processes
@pytest.mark.parametrize("backend", SHARED)
def test_of_callers_in_several_processes_one_has_the_last_room(
    backend: str, tmp_path: Path
) -> None:
    url = BACKENDS[backend](tmp_path)
    store = open_store(url, FakeClock())
    store.migrate()
    room = ROOM._replace(cpu=1_000)
    with racers(url, 4) as racing:
        for _ in range(25):
            callers = [caller(store) for _ in range(4)]
            given = racing.round(*((take_permit, (each, CORE, room)) for each in callers))
            assert given.count(True) == 1
            assert len(store.permits()) == 1
            for session in callers:
                store.end(session, KILLED)
    store.close()


@on_processes
@pytest.mark.parametrize("backend", SHARED)
def test_job_that_several_hosts_meet_at_once_reserves_one_of_them(
    backend: str, tmp_path: Path
) -> None:
    url = BACKENDS[backend](tmp_path)
    store = open_store(url, FakeClock())
    store.migrate()
    hosts = [Gated(store, room=ROOM._replace(server=f"web-{n}", cpu=1_000)) for n in range(4)]
    for host in hosts:
        assert store.take_permit(caller(store), CORE, host.room)
    with racers(url, 4) as racing:
        for _ in range(25):
            (job,) = add_many(store, 1, task="render")
            asked = [
                (
                    each.id,
                    each.seq + 1,
                    Want((each.pool(1),), each.gate()._replace(reserve_after_us=0)),
                )
                for each in hosts
            ]
            answers = racing.round(*((claim, each) for each in asked))
            assert [answer.claimed for answer in answers] == [()] * 4
            assert [each.holder for each in store.reservations()] == [job]
            store.cancel(job)
            for host in hosts:
                host.seq += 1
    store.close()


@on_processes
@pytest.mark.parametrize("backend", SHARED)
def test_jobs_and_callers_that_wait_for_one_host_have_it_one_by_one(
    backend: str, tmp_path: Path
) -> None:
    """Whoever has reserved it is next, however they meet, and each of them is."""
    url = BACKENDS[backend](tmp_path)
    store = open_store(url, FakeClock())
    store.migrate()
    room = ROOM._replace(cpu=1_000)
    hosts = [Gated(store, {f"render-{n}": CORE}, room) for n in range(2)]
    with racers(url, 4) as racing:
        for _ in range(8):
            user = caller(store)
            assert store.take_permit(user, CORE, room)
            jobs = [add(store, task=f"render-{n}") for n in range(2)]
            left = {*jobs, caller(store), caller(store)}
            for _ in range(60):
                before = {each.holder for each in store.reservations()}
                asked = [
                    (
                        each.id,
                        each.seq + 1,
                        Want((each.pool(1),), each.gate()._replace(reserve_after_us=0)),
                    )
                    for each in hosts
                ]
                callers = sorted(left.difference(jobs))
                racing.round(
                    *((claim, each) for each in asked),
                    *((take_permit, (each, CORE, room, 0)) for each in callers),
                    *((promote, ()) for _ in range(2 - len(callers))),
                )
                for host in hosts:
                    host.seq += 1
                held = store.permits()
                assert len(held) <= 1
                assert len(store.reservations()) <= 1
                begun = {each.holder for each in held} - {user}
                assert not before or begun <= before
                left -= begun
                store.end(user, KILLED)
                for each in held:
                    if each.holder == each.session:
                        store.end(each.session, KILLED)
                for host in hosts:
                    host.exchange(*(Complete(lease) for lease in store.held(host.id)))
                if not left:
                    break
            assert not left
    store.close()
