"""weight: queues are served in proportion, none is left out, no place stays empty."""

from collections import Counter

import pytest
from contract.driver import Holder, add, add_many

from limpet.domain.queue import QueueRules
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store


def weigh(store: Store, **weights: int) -> None:
    store.declare_queues({queue: QueueRules(weight=weight) for queue, weight in weights.items()})


def serve(holder: Holder, claims: int, total: int) -> Counter[str]:
    """How many of each queue were run in so many claims."""
    served: Counter[str] = Counter()
    done: list[Complete] = []
    for _ in range(claims):
        claimed = holder.exchange(*done, want=holder.want(total)).claimed
        served.update(each.queue for each in claimed)
        done = [Complete(each.lease) for each in claimed]
    holder.settle(*done)
    return served


@pytest.mark.parametrize(("claims", "total"), [(320, 1), (16, 20)], ids=["by one", "by twenty"])
def test_queues_are_served_in_proportion_to_their_weights(
    store: Store, holder: Holder, claims: int, total: int
) -> None:
    for queue in ("heavy", "middle", "light"):
        add_many(store, 300, queue=queue)
    weigh(store, heavy=5, middle=2)
    served = serve(holder, claims, total)
    assert sum(served.values()) == 320
    for queue, share in (("heavy", 200), ("middle", 80), ("light", 40)):
        assert abs(served[queue] - share) <= 32, served


@pytest.mark.parametrize("total", [1, 20])
def test_no_place_stays_empty_where_a_queue_has_no_jobs(
    store: Store, holder: Holder, total: int
) -> None:
    add_many(store, 5, queue="heavy")
    light = add_many(store, 60, queue="light")
    weigh(store, heavy=50, light=1)
    served = serve(holder, 60 // total, total)
    assert sum(served.values()) == 60
    assert served["light"] >= 55
    assert holder.claim_ids(20) == light[-5:]


def test_light_queue_is_not_left_out_for_ever(store: Store, holder: Holder) -> None:
    add_many(store, 400, queue="heavy")
    light = add(store, queue="light", priority=-900)
    weigh(store, heavy=40)
    for _ in range(390):
        (claimed,) = holder.claim(1)
        holder.settle(Complete(claimed.lease))
        if claimed.lease.job == light:
            return
    pytest.fail("the light queue was never served")


def test_within_a_queue_the_order_stays(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 20, queue="a")
    urgent = add(store, queue="a", priority=5)
    add_many(store, 40, queue="b")
    weigh(store, a=2, b=3)
    order: list[str] = []
    for total in (1, 7, 3, 20, 20):
        claimed = holder.claim(total)
        assert len(claimed) == total
        order += [each.lease.job for each in claimed if each.queue == "a"]
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert order == [urgent, *jobs][: len(order)]
    assert len(order) >= 15


def test_all_is_taken_where_there_is_room_for_all(store: Store, holder: Holder) -> None:
    jobs = {job for queue in "abc" for job in add_many(store, 5, queue=queue)}
    weigh(store, a=9, b=1)
    assert set(holder.claim_ids(20)) == jobs


def test_slots_of_a_queue_bound_its_share(store: Store, holder: Holder) -> None:
    add_many(store, 50, queue="heavy")
    add_many(store, 50, queue="light")
    weigh(store, heavy=9, light=1)
    claimed = holder.claim(20, {"heavy": 3, "light": 20})
    assert Counter(each.queue for each in claimed) == {"heavy": 3, "light": 17}


def test_limit_of_a_heavy_queue_leaves_its_share_to_others(store: Store, holder: Holder) -> None:
    add_many(store, 50, queue="heavy")
    add_many(store, 50, queue="light")
    store.declare_queues(
        {"heavy": QueueRules(concurrency=2, weight=9), "light": QueueRules(weight=1)}
    )
    claimed = holder.claim(20)
    assert Counter(each.queue for each in claimed) == {"heavy": 2, "light": 18}


def test_paused_queue_leaves_its_share_to_others(store: Store, holder: Holder) -> None:
    add_many(store, 50, queue="heavy")
    add_many(store, 50, queue="light")
    weigh(store, heavy=9, light=1)
    store.pause("heavy")
    assert Counter(each.queue for each in holder.claim(20)) == {"light": 20}


def test_weight_set_at_run_time_counts(store: Store, holder: Holder) -> None:
    for queue in ("a", "b"):
        add_many(store, 200, queue=queue)
    weigh(store, a=1, b=1)
    store.limit_queue("b", QueueRules(weight=9))
    served = serve(holder, 10, 20)
    assert sum(served.values()) == 200
    assert abs(served["b"] - 180) <= 20
