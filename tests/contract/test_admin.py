"""migrate, info, invariants, bells: the store itself."""

from datetime import timedelta

from contract.driver import Holder, add, get

from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store

NOW = timedelta()


def test_migration_of_a_current_store_has_nothing_to_do(store: Store) -> None:
    job = add(store)
    epoch = store.info().epoch
    assert store.migrate() == ()
    assert store.migrate() == ()
    assert store.info().epoch == epoch
    assert get(store, job).state is State.READY


def test_store_tells_what_it_is(store: Store) -> None:
    info = store.info()
    assert info.url
    assert info.durability
    assert info.epoch
    assert info.schema_version >= 1


def test_new_store_is_sound(store: Store) -> None:
    assert store.invariants() == ()


def test_bell_rings_when_a_job_is_ready(store: Store) -> None:
    bell = store.listen(Topic.READY)
    try:
        assert not bell.wait(NOW)
        add(store)
        assert bell.wait(timedelta(seconds=10))
        assert not bell.wait(NOW)
    finally:
        bell.close()


def test_bell_rings_when_a_job_is_done(store: Store) -> None:
    add(store)
    holder = Holder(store)
    lease = holder.take()
    bell = store.listen(Topic.DONE)
    try:
        assert not bell.wait(NOW)
        holder.settle(Complete(lease))
        assert bell.wait(timedelta(seconds=10))
    finally:
        bell.close()
