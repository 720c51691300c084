"""Declared schedules: one goes when no session that is not dead declares it any more."""

from dataclasses import replace
from datetime import timedelta

import pytest
from contract.driver import KILLED, MINUTE, Holder, session_of

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule, Timing
from limpet.maintenance.declared import Declarer
from limpet.storage.contract.store import Store
from limpet.storage.records.store_settings import SchedulePiece
from limpet.testing.clock import FakeClock


def pieces(*ids: str) -> dict[str, str]:
    job, timing = NewJob("", "task", "{}"), Timing(every=MINUTE)
    made = [Schedule(id=each, job=job, timing=timing, next_at=0) for each in ids]
    return {each.id: SchedulePiece.of(each).text() for each in made}


class Worker:
    """One that runs some version of an app, as far as its schedules go."""

    def __init__(
        self, store: Store, clock: FakeClock, *ids: str, app: str = "one:app", removes: bool = True
    ) -> None:
        self.holder = Holder(store, schedules=ids)
        self.declarer = Declarer(store, app, pieces(*ids), removes=removes, clock=clock)
        self.declarer.begin()


def ids(store: Store) -> list[str]:
    return [each.id for each in store.schedules()]


def test_session_tells_the_schedules_that_it_declares(store: Store) -> None:
    holder = Holder(store, schedules=["a", "b \N{SNOWMAN}"])
    assert session_of(store, holder.id).schedules == {"a", "b \N{SNOWMAN}"}
    assert session_of(store, Holder(store).id).schedules == frozenset()
    store.register(replace(holder.new, schedules=frozenset({"c"})))
    assert session_of(store, holder.id).schedules == {"a", "b \N{SNOWMAN}"}


def test_old_version_that_comes_back_leaves_the_schedules_of_the_new_one(
    store: Store, clock: FakeClock
) -> None:
    Worker(store, clock, "kept", "old")
    new = Worker(store, clock, "kept", "new")
    before = store.schedules()
    clock.advance(timedelta(seconds=9))
    back = Worker(store, clock, "kept", "old")
    new.declarer.run()
    assert ids(store) == ["kept", "new", "old"]
    assert store.schedules() == before
    assert back.holder.id != new.holder.id


@pytest.mark.parametrize("draining", [False, True])
def test_schedule_goes_with_the_last_session_that_declares_it(
    store: Store, clock: FakeClock, draining: bool
) -> None:
    first, second = Worker(store, clock, "kept", "old"), Worker(store, clock, "kept", "old")
    new = Worker(store, clock, "kept")
    store.end(first.holder.id, KILLED)
    if draining:
        store.renew(second.holder.id, draining=True)
    new.declarer.run()
    assert ids(store) == ["kept", "old"]
    store.end(second.holder.id, KILLED)
    new.declarer.run()
    assert ids(store) == ["kept"]


def test_only_what_the_app_itself_declared_goes(store: Store, clock: FakeClock) -> None:
    gone = Worker(store, clock, "a"), Worker(store, clock, "b", app="other:app")
    store.put_schedule(SchedulePiece("task", "{}", "q", every=MINUTE).schedule("c"))
    first = store.schedule("a")
    for each in gone:
        store.end(each.holder.id, KILLED)
    again = Worker(store, clock, "a")
    assert store.schedule("a") == first  # started again, it changes nothing
    store.end(again.holder.id, KILLED)
    keeps = Worker(store, clock, removes=False)
    keeps.declarer.run()
    assert ids(store) == ["a", "b", "c"]
    Worker(store, clock)
    assert ids(store) == ["b", "c"]


def test_worker_that_begins_while_its_schedule_is_removed_finds_it_again(
    store: Store, clock: FakeClock
) -> None:
    # The one that removes has read the sessions; then a worker begins, finds its schedule there
    # and puts nothing; then the schedule is removed.
    gone = Worker(store, clock, "back")
    store.end(gone.holder.id, KILLED)
    before = store.schedule("back")

    class Late:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def remove_schedule(self, schedule: str) -> bool:
            Worker(store, clock, "back", removes=False)
            return store.remove_schedule(schedule)

    late: Store = Late()  # type: ignore[assignment]
    Declarer(late, "one:app", {}, removes=True, clock=clock).run()
    after = store.schedule("back")
    assert before is not None
    assert after is not None
    assert replace(after, changed_at=0) == replace(before, changed_at=0)
