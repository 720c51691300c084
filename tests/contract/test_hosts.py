"""What hosts say of themselves, for as long as they do."""

from datetime import timedelta

from limpet.domain.host import Host, Sample, Span
from limpet.storage.contract.gating import SAMPLES_KEPT
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

LIFETIME = timedelta(seconds=10)
TEN = 10_000_000


def test_host_is_known_by_what_it_said_last(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    store.publish_host("web-2", '{"cpu": 7}', LIFETIME)
    store.publish_host("web-1", '{"cpu": 1}', LIFETIME)
    store.publish_host("web-1", '{"cpu": 2}', LIFETIME)
    assert store.hosts() == (
        Host("web-1", '{"cpu": 2}', now, now + TEN),
        Host("web-2", '{"cpu": 7}', now, now + TEN),
    )


def test_host_that_says_nothing_more_disappears(store: Store, clock: FakeClock) -> None:
    store.publish_host("web-1", "{}", LIFETIME)
    clock.advance(LIFETIME - timedelta(microseconds=1))
    store.publish_host("web-2", "{}", LIFETIME)
    assert [host.server for host in store.hosts()] == ["web-1", "web-2"]
    clock.advance(timedelta(microseconds=1))
    assert [host.server for host in store.hosts()] == ["web-2"]
    store.publish_host("web-1", "{}", LIFETIME)
    assert [host.server for host in store.hosts()] == ["web-1", "web-2"]


def test_one_host_is_found_by_its_name_while_it_holds(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    for server in ("web-1", "web-10", "web-2"):
        store.publish_host(server, f'"{server}"', LIFETIME)
    assert store.hosts("web-1") == (Host("web-1", '"web-1"', now, now + TEN),)
    assert store.hosts("web") == store.hosts("") == ()
    clock.advance(LIFETIME - timedelta(microseconds=1))
    assert [host.server for host in store.hosts("web-1")] == ["web-1"]
    clock.advance(timedelta(microseconds=1))
    assert store.hosts("web-1") == ()


def test_samples_are_kept_apart_by_host_and_span_in_order(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    later = Sample(Span.SECOND, now, "[2]")
    earlier = Sample(Span.SECOND, now - 1_000_000, "[1]")
    minute = Sample(Span.MINUTE, now, "[3]")
    store.publish_host("web-1", "{}", LIFETIME, [later, earlier, minute])
    store.publish_host("web-2", "{}", LIFETIME, [later])
    assert store.samples("web-1", Span.SECOND) == (earlier, later)
    assert store.samples("web-1", Span.MINUTE) == (minute,)
    assert store.samples("web-2", Span.SECOND) == (later,)
    assert store.samples("web-3", Span.SECOND) == ()


def test_sample_of_a_moment_that_has_one_takes_its_place(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    store.publish_host("web-1", "{}", LIFETIME, [Sample(Span.SECOND, now, "[1]")])
    store.publish_host("web-1", "{}", LIFETIME, [Sample(Span.SECOND, now, "[2]")])
    assert store.samples("web-1", Span.SECOND) == (Sample(Span.SECOND, now, "[2]"),)


def test_samples_are_kept_for_as_long_as_their_span_says(store: Store, clock: FakeClock) -> None:
    for span in Span:
        store.publish_host("web-1", "{}", LIFETIME, [Sample(span, clock.wall(), "[1]")])
    clock.advance(SAMPLES_KEPT[Span.SECOND])
    store.publish_host("web-1", "{}", LIFETIME, [Sample(Span.SECOND, clock.wall(), "[2]")])
    assert [each.body for each in store.samples("web-1", Span.SECOND)] == ["[2]"]
    assert [each.body for each in store.samples("web-1", Span.MINUTE)] == ["[1]"]
    clock.advance(SAMPLES_KEPT[Span.MINUTE])
    store.publish_host("web-1", "{}", LIFETIME)
    assert store.samples("web-1", Span.MINUTE) == ()


def test_samples_outlive_what_the_host_said_of_itself(store: Store, clock: FakeClock) -> None:
    sample = Sample(Span.SECOND, clock.wall(), "[1]")
    store.publish_host("web-1", "{}", LIFETIME, [sample])
    clock.advance(LIFETIME)
    assert store.hosts() == ()
    assert store.samples("web-1", Span.SECOND) == (sample,)
