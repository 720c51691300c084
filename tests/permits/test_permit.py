"""A permit in one process: had, held, lost, given back."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
from machine import crowded
from permits.measured import Measure

from limpet import App, GateTimeout, InvalidOption, NeverFits, PermitLost
from limpet.domain.cause import Requested
from limpet.domain.errors import StoreRefused, StoreUnreachable
from limpet.domain.session import SessionKind, SessionState
from limpet.domain.weight import Weight
from limpet.host import locks
from limpet.host.here import Here
from limpet.permits.permit import Permit
from limpet.storage.answers import Renewed
from limpet.storage.base import Store
from limpet.storage.registry import open_store


def test_permit_is_held_inside_the_with_and_given_back_after_it(
    app: App, store: Store, measure: Measure
) -> None:
    with measure():
        with app.permit(cpu=2, memory="1GiB", name="backup") as permit:
            (held,) = store.permits()
            assert (held.what, held.weight) == ("backup", Weight(2, "1GiB"))
            (session,) = store.sessions()
            assert session.kind is SessionKind.PERMIT
            assert session.lock is not None
            assert os.path.exists(session.lock.path)
            permit.check()
        assert store.permits() == ()
        (ended,) = store.sessions(with_dead=True)
        assert ended.state is SessionState.DEAD
        assert isinstance(ended.cause, Requested)
        assert not os.path.exists(session.lock.path)
        with pytest.raises(PermitLost, match="is not held"):
            permit.check()


def test_permit_is_given_back_when_the_body_raises(
    app: App, store: Store, measure: Measure
) -> None:
    with measure(), pytest.raises(ZeroDivisionError), app.permit():
        raise ZeroDivisionError
    assert store.permits() == ()


def test_permit_that_was_left_can_be_entered_again(
    app: App, store: Store, measure: Measure
) -> None:
    permit = app.permit()
    with measure():
        for _ in range(2):
            with permit:
                assert len(store.permits()) == 1
                with pytest.raises(InvalidOption, match="in use already"), permit:
                    pass
    assert store.permits() == ()


def test_waiting_for_too_long_says_why(
    app: App, store: Store, server: str, measure: Measure
) -> None:
    with measure(busy=84), pytest.raises(GateTimeout) as told, app.permit(timeout=0.2):
        pass
    assert told.value.reason == f"waiting: {server} CPU 84 % of 80 %"
    assert told.value.reason in str(told.value)
    assert all(each.state is SessionState.DEAD for each in store.sessions(with_dead=True))


def test_what_others_hold_is_the_reason(app: App, server: str, measure: Measure) -> None:
    with measure(), app.permit(cpu=2):
        with pytest.raises(GateTimeout, match=f"{server} reserved 2 of 3 cores"):
            app.permit(cpu=2, timeout=0).__enter__()
        with pytest.raises(GateTimeout, match=f"{server} has other weighted work, permits: 1"):
            app.permit(heavy=True, timeout=0).__enter__()


def test_what_can_never_fit_is_refused_at_once(
    app: App, store: Store, server: str, measure: Measure
) -> None:
    with (
        measure(),
        pytest.raises(NeverFits, match=f"{server} is too small: 64 cores needed, has 3"),
    ):
        app.permit(cpu=64).__enter__()
    assert store.sessions() == ()


def test_room_is_had_as_soon_as_it_is_given_back(app: App, measure: Measure) -> None:
    first, second = app.permit(cpu=3), app.permit(cpu=3)
    had: list[float] = []

    def wait() -> None:
        with second:
            had.append(time.monotonic())

    with measure():
        with first:
            waiter = threading.Thread(target=wait)
            waiter.start()
            time.sleep(0.8)
            assert not had
        left = time.monotonic()
        waiter.join(5)
    assert had[0] - left < 0.4 * crowded()


def test_wait_ends_when_the_host_is_calm_again(app: App, measure: Measure) -> None:
    with measure(busy=95) as monitor:
        threading.Timer(0.3, lambda: monitor.say(10)).start()
        with app.permit(timeout=5) as permit:
            assert permit.held


def test_host_without_a_monitor_is_measured_by_whoever_asks(
    app: App, store: Store, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_GATE_CPU", "1")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with pytest.raises(GateTimeout, match=f"{server} CPU .* % of 1 %"):
            app.permit(cpu=0.01, timeout=0).__enter__()
    finally:
        busy.kill()
        busy.wait()


def test_interrupt_while_waiting_leaves_nothing(app: App, store: Store, measure: Measure) -> None:
    with measure(busy=95):
        threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), app.permit():
            pass
    assert store.sessions() == ()
    assert [t for t in threading.enumerate() if t.name == "limpet-permit"] == []


def test_permit_is_refused_inside_a_worker(app: App, url: str) -> None:
    app.store_through(open_store(url))
    with pytest.raises(InvalidOption, match="a task declares what it weighs"):
        app.permit()


def test_host_without_room_for_its_lock_is_told_in_a_sentence(
    app: App, store: Store, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(session: str) -> None:
        raise OSError(28, "No space left on device", "/run/limpet/x.lock")

    monkeypatch.setattr(locks, "take", full)
    with measure(), pytest.raises(StoreRefused, match="No space left on device"):
        app.permit().__enter__()
    assert store.sessions(with_dead=True) == ()


# -- async


def test_async_permits_of_a_loop_wait_without_blocking_it(
    app: App, store: Store, measure: Measure
) -> None:
    most = 0

    async def one() -> None:
        nonlocal most
        async with app.permit(cpu=1) as permit:
            most = max(most, len(await asyncio.to_thread(store.permits)))
            permit.check()
            await asyncio.sleep(0.05)

    async def all_of_them() -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(one() for _ in range(12)))

    with measure():
        asyncio.run(all_of_them())
    assert most == 3
    assert store.permits() == ()


def test_cancelled_wait_leaves_nothing(app: App, store: Store, measure: Measure) -> None:
    async def waits() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), app.permit():
                raise AssertionError("there was no room")

    with measure(busy=95):
        asyncio.run(waits())
    assert store.sessions() == ()


def test_cancelled_body_gives_the_permit_back(app: App, store: Store, measure: Measure) -> None:
    async def works() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), app.permit():
                await asyncio.sleep(10)

    with measure():
        asyncio.run(works())
    assert store.permits() == ()


# -- lost


class Silent:
    """A store that does not answer renewals from some moment on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def renew(self, session: str, *, stepped: bool = False) -> Renewed:
        if self.away.is_set():
            raise StoreUnreachable("nobody answers.")
        return self._store.renew(session, stepped=stepped)


def silent(store: Store, server: str, **options: object) -> tuple[Silent, Permit]:
    away = Silent(store)
    lease = timedelta(seconds=2)
    made = Permit(away, lambda: Here(server), Weight(1), lease=lease, **options)  # type: ignore[arg-type]
    return away, made


def test_holder_is_told_before_its_lease_can_pass_on(
    store: Store, server: str, measure: Measure
) -> None:
    told: list[float] = []
    away, permit = silent(store, server, on_lost=lambda: told.append(time.monotonic()))
    with measure():
        permit.__enter__()
        away.away.set()
        began = time.monotonic()
        while permit.held:
            assert time.monotonic() - began < 1.6
            time.sleep(0.01)
        (session,) = store.sessions()
        assert not session.overdue  # the store has not given it up yet
        with pytest.raises(PermitLost):
            permit.check()
        time.sleep(0.5)
        with pytest.raises(PermitLost, match="nobody answers|could not be renewed"):
            permit.__exit__(None, None, None)
    assert len(told) == 1
    assert told[0] - began < min(1.8 * crowded(), 2.0)
    assert store.permits() == ()


def test_error_of_the_body_is_not_hidden_by_the_loss(
    store: Store, server: str, measure: Measure
) -> None:
    away, permit = silent(store, server)
    with measure():
        permit.__enter__()
        away.away.set()
        time.sleep(1.3)
        assert not permit.held
        permit.__exit__(ZeroDivisionError, ZeroDivisionError(), None)  # which goes on
    assert store.permits() == ()


def test_permit_that_somebody_ended_is_lost(store: Store, server: str, measure: Measure) -> None:
    _, permit = silent(store, server)
    with measure():
        permit.__enter__()
        assert permit.session is not None
        store.end(permit.session, Requested("a person"))
        time.sleep(0.8)
        assert not permit.held
        with pytest.raises(PermitLost, match="is dead"):
            permit.__exit__(None, None, None)


def test_permit_is_held_for_longer_than_its_lease(
    store: Store, server: str, measure: Measure
) -> None:
    _, permit = silent(store, server)
    with measure(), permit:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            permit.check()
            time.sleep(0.05)


def test_waiting_goes_on_in_a_new_session_after_an_outage(
    store: Store, server: str, measure: Measure
) -> None:
    away, permit = silent(store, server)
    with measure(busy=95) as monitor:
        away.away.set()
        threading.Timer(2.5, away.away.clear).start()
        threading.Timer(2.6, lambda: monitor.say(0)).start()
        with permit:
            permit.check()
            assert len(store.permits()) == 1


# -- fork


def test_forked_child_has_no_share_in_the_permit(app: App, store: Store, measure: Measure) -> None:
    with measure(), app.permit() as permit:
        session = permit.session
        assert session is not None
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(PermitLost, match="forked"):
                    permit.check()
                permit.__exit__(None, None, None)
                os._exit(7 if not permit.held else 8)
            finally:
                os._exit(9)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        permit.check()
        assert len(store.permits()) == 1
    assert store.permits() == ()
