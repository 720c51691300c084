"""Queues, keys and breakers as a person shapes them."""

from acceptance.operations import SECOND, Say, add
from contract.driver import Holder, add_many, get

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store


def test_queue_is_paused_drained_and_resumed(store: Store, limpet_here: Say) -> None:
    add(store, queue="email")
    assert limpet_here("queues", "pause", "email").out == (
        "queue email is paused: none of its jobs starts until it is resumed\n"
    )
    said = limpet_here("queues", "drain", "email")
    assert said.out == (
        "queue email takes in no new jobs; 1 wait and 0 run, but it is paused: resume it to let "
        "them go on\n"
    )
    assert "paused; draining" in limpet_here("queues").out
    assert limpet_here("queues", "resume", "email").out == (
        "queue email goes on and takes in jobs\n"
    )
    assert "draining" not in limpet_here("queues").out


def test_drain_waits_until_the_queue_is_empty(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    job = add(store, queue="email")
    said = limpet_here("queues", "drain", "email", "--wait", "--at-most", "0.3s")
    assert (said.code, "is not empty after 0.3s: 1 wait and 0 run" in said.out) == (1, True)
    assert "1 wait and 0 run" in said.err
    holder.settle(Complete(holder.take()))
    said = limpet_here("queues", "drain", "email", "--wait")
    assert (said.code, "is drained" in said.out) == (0, True)
    assert get(store, job).state is State.SUCCEEDED


def test_queue_is_limited_and_says_so(store: Store, holder: Holder, limpet_here: Say) -> None:
    add_many(store, 3)
    said = limpet_here("queues", "limit", "default", "--concurrency", "2", "--weight", "3")
    assert said.out == "queue default is limited to 2 at once, weight 3\n"
    said = limpet_here("queues", "limit", "default", "--rate", "100/m", "--bursty")
    assert said.out == "queue default is limited to 2 at once, 100/m bursty, weight 3\n"
    assert len(holder.claim()) == 2
    listed = limpet_here("queues").out
    assert "2 at once, 100/m bursty, weight 3" in listed
    assert "2 of 2 running" in listed
    record = limpet_here("queues", "--json").json[0]
    assert record["rules"] == {"concurrency": 2, "rate": "100/m bursty", "weight": 3}
    assert limpet_here("queues", "unlimit", "default", "--concurrency").out == (
        "queue default is limited to 100/m bursty, weight 3\n"
    )
    store.declare_queues({"default": QueueRules(7)})
    assert limpet_here("queues", "unlimit", "default").out == (
        "queue default is limited to 7 at once, as the app declares\n"
    )
    store.declare_queues({"default": QueueRules()})
    assert limpet_here("queues", "unlimit", "default").out == "queue default has no limits\n"
    assert "LIMITS" not in limpet_here("queues").out


def test_queue_says_what_its_blocked_jobs_wait_for(
    store: Store, holder: Holder, limpet_here: Say
) -> None:
    for _ in range(3):
        add(store, key="k", queue="keyed")
    add(store, "strange", queue="odd")
    holder.claim(1, {"odd": 1})
    holder.claim(1, {"keyed": 1})
    said = limpet_here("queues").out
    assert "2 wait for their key" in said
    assert "1 needs task strange" in said


def test_queue_is_held_for_a_time(store: Store, limpet_here: Say) -> None:
    add(store)
    said = limpet_here("queues", "hold", "default", "--for", "10m")
    assert said.out == "queue default is held: its jobs start again in 10m\n"
    assert "held, goes on in 10m" in limpet_here("queues").out
    assert "still held" in limpet_here("queues", "resume", "default").out
    assert limpet_here("queues", "hold", "default", "--for", "0s").out == (
        "queue default is not held any more\n"
    )


def test_queue_without_jobs_is_told_in_case_it_is_a_slip_of_the_pen(
    store: Store, limpet_here: Say
) -> None:
    assert limpet_here("queues", "pause", "emial").out.endswith("(it has had no jobs yet)\n")


def test_key_is_limited(store: Store, limpet_here: Say) -> None:
    jobs = [add(store, key="k") for _ in range(3)]
    said = limpet_here("keys", "limit", "k", "--concurrency", "2", "--rate", "50/s")
    assert said.out == "key k: 2 at once, 50/s\n"
    assert [get(store, job).state.value for job in jobs] == ["ready", "ready", "blocked"]
    assert limpet_here("keys", "unlimit", "k").out == "key k: as its jobs declare\n"


def test_breakers_are_listed_and_reset(store: Store, holder: Holder, limpet_here: Say) -> None:
    assert limpet_here("breakers").out == "no breakers\n"
    rules = BreakerRules("stripe", frozenset({"task"}), 0.5, 2, 60 * SECOND, 30 * SECOND)
    store.declare_breakers([rules])
    holder.exchange(observed=[Observed("stripe", 0, 2)])
    add(store)
    assert "stripe   open" in limpet_here("breakers").out
    assert limpet_here("breakers", "--json").json[0]["state"] == "open"
    assert "breaker stripe open, tries one in" in limpet_here("queues").out
    assert limpet_here("breakers", "reset", "stripe").out == "breaker stripe is closed\n"
    assert limpet_here("breakers", "--json").json[0]["state"] == "closed"
    missing = limpet_here("breakers", "reset", "strope")
    assert missing.code == 1
    assert "there is no breaker 'strope'; this store has: stripe" in missing.err
