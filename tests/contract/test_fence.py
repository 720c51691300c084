"""A late holder changes nothing: every word, in every state, from everyone whose lease is over."""

from collections.abc import Callable

import pytest
from contract.driver import Holder, get
from contract.outcomes import INTO, WORDS, Stage, Word

from limpet.domain.cause import LateHolder
from limpet.domain.event import EventName
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import Rejected
from limpet.storage.contract.store import Store

Late = Callable[[Stage], tuple[Holder, Lease]]


def _dead_holder(stage: Stage) -> tuple[Holder, Lease]:
    return stage.first, stage.old


def _older_token(stage: Stage) -> tuple[Holder, Lease]:
    return stage.second, stage.current._replace(token=1)


def _token_never_given(stage: Stage) -> tuple[Holder, Lease]:
    return stage.second, stage.current._replace(token=3)


def _foreign_session(stage: Stage) -> tuple[Holder, Lease]:
    other = Holder(stage.store, ["other"])
    return other, stage.current._replace(session=other.id)


def _foreign_session_with_the_lease_itself(stage: Stage) -> tuple[Holder, Lease]:
    return Holder(stage.store, ["other"]), stage.current


LATE: dict[str, Late] = {
    "dead holder": _dead_holder,
    "older token": _older_token,
    "token never given": _token_never_given,
    "foreign session": _foreign_session,
    "foreign session with the lease itself": _foreign_session_with_the_lease_itself,
}


@pytest.mark.parametrize("state", INTO)
@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_word_of_a_late_holder_is_lost_and_leaves_the_job_untouched(
    store: Store, state: State, word: Word
) -> None:
    stage = Stage(store, state)
    # One after the other on one job: each must leave it as it was before the first of them.
    for who, late in LATE.items():
        holder, lease = late(stage)
        before = get(store, stage.job), store.events(stage.job), store.log(stage.job)
        held = store.held(stage.second.id)
        assert word(holder, lease) == (Rejected(lease, "lost"),), who
        after = get(store, stage.job), store.events(stage.job), store.log(stage.job)
        assert (after[0], after[2]) == (before[0], before[2]), who
        assert store.held(stage.second.id) == held, who
        *earlier, told = after[1]
        assert tuple(earlier) == before[1], who
        assert (told.event, told.session, told.token) == (
            EventName.LEASE_LOST,
            holder.id,
            lease.token,
        ), who
        assert isinstance(told.cause, LateHolder), who
    assert store.invariants() == ()


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_word_of_a_dead_holder_is_lost_before_its_jobs_are_recovered(
    store: Store, word: Word
) -> None:
    stage = Stage(store, State.RUNNING)
    stage.second.die()
    before = get(store, stage.job)
    assert word(stage.second, stage.current) == (Rejected(stage.current, "lost"),)
    assert get(store, stage.job) == before
    assert store.events(stage.job)[-1].event is EventName.LEASE_LOST
    assert store.recover(stage.second.id).ready == 1


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_word_of_the_holder_itself_is_accepted(store: Store, word: Word) -> None:
    stage = Stage(store, State.RUNNING)
    assert word(stage.second, stage.current) == ()
    assert EventName.LEASE_LOST not in [event.event for event in store.events(stage.job)]


def test_every_state_is_staged() -> None:
    assert set(INTO) == set(State)
