"""One worker of a host measures it, all of them know what it has room for."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from machine_tree import GIB, MachineTree, pressure

from limpet import log
from limpet.domain.errors import StoreUnreachable
from limpet.domain.host import Span
from limpet.domain.permit import Room, Taken, fits, helped_by_an_end
from limpet.domain.reading import Reading
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.weight import HEAVY, Weight
from limpet.domain.worker_settings import WorkerSettings
from limpet.gate.published import Published, published_of
from limpet.host.marks import ZYGOTE
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.worker.supervisor import gatekeeper as module
from limpet.worker.supervisor.gatekeeper import Gatekeeper
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.wire.catalog import Catalog, TaskFacts
from limpet.worker.wire.page import now
from limpet.worker.wire.plan import Plan

POLL_SECONDS = 0.06
WEIGHT = Weight(cpu=1)
PLAN = Plan("app:app", name="w", settings=WorkerSettings(server_id="web-2", gate_cpu=65))


def catalog(url: str, weight: Weight | None = WEIGHT) -> Catalog:
    facts = TaskFacts("render", in_lane=True, has_hook=False, takes_context=False, weight=weight)
    return Catalog(url, [facts], {}, 1, False, {}, {}, [], {}, False)


class Line:
    """A store that can be made to answer nobody."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.failing_since: int | None = None
        self.hangs: asyncio.Event | None = None
        self.asked = 0

    async def do(self, work: Callable[[], Any]) -> Any:
        self.asked += 1
        if self.hangs is not None:
            await self.hangs.wait()
        return await asyncio.to_thread(work)


@dataclass
class Machine:
    tree: MachineTree
    store: Store
    url: str

    def worker(self, session: str, plan: Plan = PLAN, weight: Weight | None = WEIGHT) -> Gatekeeper:
        line: Any = Line(self.store)
        page: Any = None
        scope = SessionScope(plan, session, page, line, Ledger())
        made = Gatekeeper(scope, catalog(self.url, weight), lambda job, cause: None)
        made.registered(self.store.info().epoch)
        return made

    def said(self) -> dict[str, Published]:
        found = {each.server: published_of(each.body) for each in self.store.hosts()}
        return {server: said for server, said in found.items() if said is not None}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_folder: Path) -> Iterator[Machine]:
    tree = MachineTree(tmp_path / "root")
    tree.machine()
    monkeypatch.setenv(module.ROOT_VARIABLE, str(tree))
    monkeypatch.setattr(module, "POLL_MICROSECONDS", round(POLL_SECONDS * 1e6))
    url = f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    store = open_store(url)
    store.migrate()
    yield Machine(tree, store, url)
    store.close()


async def until(what: Callable[[], Any], seconds: float = 10.0) -> Any:
    give_up = asyncio.get_running_loop().time() + seconds
    while not (found := what()):
        assert asyncio.get_running_loop().time() < give_up
        await asyncio.sleep(0.01)
    return found


@contextmanager
def running(*workers: Gatekeeper) -> Iterator[list["asyncio.Task[None]"]]:
    tasks = [asyncio.ensure_future(each.run()) for each in workers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()


def room_of(worker: Gatekeeper) -> Room:
    gate = worker.gate()
    assert gate is not None
    return gate.room


def is_pressed(worker: Gatekeeper) -> bool:
    room = room_of(worker)
    return room.unseen > 0 and not room.calm  # not the one of a host that nobody has seen


def session_of(machine: Machine, server: str = "web-2") -> str:
    said = machine.said().get(server)
    return "" if said is None else said.session


def test_nothing_weighted_begins_before_somebody_could_look_at_the_host(machine: Machine) -> None:
    """A worker starts anew after every crash and deploy, also on a host that is full."""
    gate = machine.worker("s1").gate()
    assert gate is not None
    assert gate.weights == {"render": WEIGHT}
    for weight in (WEIGHT, HEAVY):
        assert not fits(gate.room, Taken(), weight)
        assert not helped_by_an_end(gate.room, Taken(), weight)


def test_gate_has_the_room_of_the_host_where_nothing_could_be_measured(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = machine.worker("s1")
    later = now() + 3_000_000
    monkeypatch.setattr(module, "now", lambda: later)
    gate = worker.gate()
    assert gate is not None
    assert (gate.room.server, gate.room.memory) == ("web-2", 8 * GIB * 9 // 10 + 1)
    assert gate.room.free_cpu is None
    assert fits(gate.room, Taken(), WEIGHT)


def test_app_of_light_tasks_has_no_gate(machine: Machine) -> None:
    assert machine.worker("s1", weight=None).gate() is None


def test_one_worker_publishes_and_the_others_learn_of_it(machine: Machine) -> None:
    async def live() -> None:
        first, second = machine.worker("s1"), machine.worker("s2")
        with running(first, second):
            await until(lambda: session_of(machine))
            machine.tree.write("proc/pressure/memory", pressure(50))
            for each in (first, second):
                await until(partial(is_pressed, each))
        said = machine.said()["web-2"]
        assert (said.session, said.worker) in (("s1", "w"), ("s2", "w"))
        assert said.thresholds.cpu == 65
        assert machine.store.samples("web-2", Span.SECOND)

    asyncio.run(live())


def test_worker_of_light_tasks_that_is_not_the_monitor_asks_the_store_nothing(
    machine: Machine,
) -> None:
    async def live() -> None:
        first, second = machine.worker("s1"), machine.worker("s2", weight=None)
        with running(first):
            await until(lambda: session_of(machine))
            with running(second):
                await asyncio.sleep(5 * POLL_SECONDS)
                line: Any = second._line
                assert line.asked == 0

    asyncio.run(live())


def test_monitor_tells_of_executors_of_all_workers_and_of_what_others_use(
    machine: Machine,
) -> None:
    for session, zygote in (("s1", 100), ("s2", 200)):
        machine.tree.process(zygote, 1, mark=session, name=ZYGOTE)
        machine.tree.process(zygote + 1, zygote, mark=session, pages=7)
    machine.store.register(NewSession("p1", SessionKind.PERMIT, "backup", "host", 1))
    assert machine.store.take_permit("p1", Weight(cpu=0.5), Room("web-2", 4000, GIB))

    def measured() -> Reading:
        machine.tree.ticks(1, 9)
        return machine.said()["web-2"].reading

    async def live() -> None:
        with running(machine.worker("s1")):
            said = await until(lambda: machine.said().get("web-2"))
            assert {(each.session, each.pid) for each in said.reading.executor_use} == {
                ("s1", 101),
                ("s2", 201),
            }
            # A holder whose processes cannot be seen may be any part of what is measured.
            await until(lambda: measured().cpu_raw is not None and measured().cpu_others is None)
            machine.tree.process(300, 1, mark="p1")
            await until(lambda: measured().cpu_others is not None)

    asyncio.run(live())


def test_other_name_of_the_host_has_a_monitor_of_its_own(machine: Machine) -> None:
    async def live() -> None:
        other = machine.worker(
            "s2", PLAN._replace(settings=PLAN.settings._replace(server_id="web-3"))
        )
        with running(machine.worker("s1"), other):
            await until(lambda: len(machine.said()) == 2)

    asyncio.run(live())


def test_another_worker_takes_over_when_the_monitor_is_gone(machine: Machine) -> None:
    async def live() -> None:
        first, second = machine.worker("s1"), machine.worker("s2")
        with running(first) as tasks:
            await until(lambda: session_of(machine) == "s1")
            with running(second):
                await asyncio.sleep(3 * POLL_SECONDS)
                assert session_of(machine) == "s1"
                tasks[0].cancel()
                await asyncio.sleep(0.02)
                assert first._monitor_lock is not None
                first._monitor_lock.close()  # as the kernel does when its process ends
                await until(lambda: session_of(machine) == "s2")

    asyncio.run(live())


def test_measuring_goes_on_while_the_store_does_not_answer(machine: Machine) -> None:
    async def live() -> None:
        worker = machine.worker("s1")
        line: Any = worker._line
        with running(worker):
            await until(lambda: session_of(machine))
            line.hangs = asyncio.Event()
            await asyncio.sleep(2 * POLL_SECONDS)
            machine.tree.write("proc/pressure/memory", pressure(50))
            await until(partial(is_pressed, worker))
            assert machine.said()["web-2"].reading.pressure.memory == 1.5
            hangs, line.hangs = line.hangs, None
            hangs.set()
            await until(lambda: machine.said()["web-2"].reading.pressure.memory == 50)

    asyncio.run(live())


def test_store_that_refuses_is_told_of_once_and_asked_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(log, "emit", lambda action, **facts: told.append(action))

    async def refuse(work: Callable[[], Any]) -> Any:
        raise StoreUnreachable("nobody there")

    async def live() -> None:
        worker = machine.worker("s1")
        line: Any = worker._line
        well: Callable[..., Awaitable[Any]] = line.do
        line.do = refuse
        with running(worker):
            await until(lambda: "maintenance_failed" in told)
            await asyncio.sleep(5 * POLL_SECONDS)
            assert told.count("maintenance_failed") == 1
            line.do = well
            await until(lambda: session_of(machine))

    asyncio.run(live())


def test_reading_that_grew_old_is_unknown_and_warned_of_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(log, "emit", lambda action, **facts: told.append(facts.get("what", "")))
    monkeypatch.setattr(module, "LIFETIME_MICROSECONDS", 200_000)

    async def hears_nothing() -> None: ...

    async def live() -> None:
        worker = machine.worker("s1", weight=HEAVY)
        with running(worker):
            await until(lambda: worker._reading)
            assert worker._reading is not None
            old = replace(worker._reading, at_boot=0)
            monkeypatch.setattr(worker, "_measure", lambda: None)
            monkeypatch.setattr(worker, "_learn", hears_nothing)
            await asyncio.sleep(2 * POLL_SECONDS)
            worker._reading = old
            assert room_of(worker).free_memory is None
            await until(lambda: any("only reservations count" in each for each in told))
            await asyncio.sleep(5 * POLL_SECONDS)
        assert sum("only reservations count" in each for each in told) == 1

    asyncio.run(live())
