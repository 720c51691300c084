"""ops.why: a weighted job that waits at the gate says what each host has against it."""

from datetime import timedelta

from contract.driver import SECOND, add
from contract.gates import CORE, GIB, Gated
from contract.reasons import of_queue, why
from contract.test_callers import waiting
from contract.test_reservations import wait

from limpet.domain.assessment import Capacity
from limpet.domain.permit import RESERVE_AFTER_US
from limpet.domain.reading import Reading
from limpet.domain.weight import HEAVY, Weight
from limpet.gate.assess import Thresholds
from limpet.gate.published import Published, written
from limpet.ops.reason import GateReason, Kind
from limpet.ops.record import plain
from limpet.storage.contract.store import Store
from limpet.storage.records.texts import to_json
from limpet.testing.clock import FakeClock


def said(
    store: Store, clock: FakeClock, server: str, cpu: float = 10.0, cores: float = 4.0
) -> None:
    """A host, on another machine, says how busy it is."""
    reading = Reading(
        host=server, at=clock.wall(), at_boot=7, cores=cores, source="host", cpu_raw=cpu * cores,
        cpu_ema=cpu * cores, memory_total=8 * GIB, memory_free=7 * GIB,
    )  # fmt: skip
    capacity = Capacity(cores, 8 * GIB)
    body = written(Published(reading, capacity, Thresholds(cpu=65), "elsewhere", "w1", "s"))
    store.publish_host(server, body, timedelta(seconds=10))


def weighted(store: Store, weight: Weight = CORE) -> str:
    return add(store, "render", options=to_json({"weight": weight.record()}))


def test_weighted_job_tells_the_reason_of_each_host(store: Store, clock: FakeClock) -> None:
    Gated(store)
    said(store, clock, "web-1", cpu=70)
    said(store, clock, "web-2", cpu=84)
    job = weighted(store)
    reason = why(store, job, clock)
    assert isinstance(reason, GateReason)
    assert reason.kind is Kind.GATE
    assert reason.text == "waiting: web-1 CPU 70 % of 65 %; web-2 CPU 84 % of 65 %"
    assert plain(reason) == {
        "kind": "gate",
        "text": reason.text,
        "until": None,
        "weight": {"cpu": 1.0},
        "hosts": {"web-1": "web-1 CPU 70 % of 65 %", "web-2": "web-2 CPU 84 % of 65 %"},
    }
    assert of_queue(store, clock) == reason
    said(store, clock, "web-2", cpu=10)
    assert why(store, job, clock).kind is Kind.IN_LINE
    assert of_queue(store, clock) is None


def test_of_many_hosts_some_are_named(store: Store, clock: FakeClock) -> None:
    Gated(store)
    for number in range(8):
        said(store, clock, f"web-{number}", cpu=84)
    reason = why(store, weighted(store), clock)
    assert reason.text.endswith("; web-4 CPU 84 % of 65 %; and 3 more hosts")
    assert isinstance(reason, GateReason)
    assert len(reason.hosts) == 8


def test_weighted_job_tells_what_others_have_reserved(store: Store, clock: FakeClock) -> None:
    worker = Gated(store, {"render": HEAVY})
    weighted(store, HEAVY)
    assert len(worker.gated_ids()) == 1
    said(store, clock, "web-1")
    assert why(store, weighted(store), clock).text == "waiting: web-1 has heavy work"


def test_weighted_job_tells_for_whom_a_host_is_kept(store: Store, clock: FakeClock) -> None:
    worker = Gated(store, {"render": HEAVY})
    running, first, second = (weighted(store, HEAVY) for _ in range(3))
    assert worker.gated_ids() == [running]
    wait(clock, RESERVE_AFTER_US, worker)
    assert worker.gated_ids() == []
    said(store, clock, "web-1")
    reason = why(store, first, clock)
    assert reason.text == "waiting: web-1 has heavy work; web-1 is reserved for it"
    assert isinstance(reason, GateReason)
    assert reason.reserved == "web-1"
    assert why(store, second, clock).text == f"waiting: web-1 is reserved for job {first}"


def test_weighted_job_tells_for_which_caller_a_host_is_kept(store: Store, clock: FakeClock) -> None:
    user, patient = waiting(store, clock)
    assert not patient.asks()
    Gated(store)
    said(store, clock, "web-1")
    assert why(store, weighted(store), clock).text == "waiting: web-1 is reserved for backup"
    user.end()
    assert why(store, weighted(store), clock).text == "waiting: web-1 is reserved for backup"


def test_weighted_job_that_fits_nowhere_says_so(store: Store, clock: FakeClock) -> None:
    Gated(store)
    said(store, clock, "web-1", cores=4)
    said(store, clock, "web-2", cores=2)
    assert why(store, weighted(store, Weight(cpu=8)), clock).text == (
        "no host can carry it: web-1 is too small: 8 cores needed, has 4; "
        "web-2 is too small: 8 cores needed, has 2"
    )


def test_weighted_job_says_that_no_host_says_anything(store: Store, clock: FakeClock) -> None:
    worker = Gated(store)
    job = weighted(store)
    assert why(store, job, clock).text.startswith("waiting: no host reports what it has room for;")
    said(store, clock, "web-1", cpu=90)
    wait(clock, 10 * SECOND, worker)
    assert "no host reports" in why(store, job, clock).text


def test_light_job_is_told_nothing_of_hosts(store: Store, clock: FakeClock) -> None:
    Gated(store)
    said(store, clock, "web-1", cpu=90)
    assert why(store, add(store), clock).kind is Kind.IN_LINE
    assert of_queue(store, clock) is None
