"""What a worker tells the store of the breakers and schedules of its app."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from limpet.domain.breaker import BreakerRules, BreakerState, BreakerStatus
from limpet.domain.cause import WorkerKilled
from limpet.domain.session import NewSession, SessionKind
from limpet.maintenance.declared import Declarer
from limpet.storage.records.store_settings import SchedulePiece
from limpet.storage.registry import open_store
from limpet.worker.supervisor import services
from limpet.worker.supervisor.declaring import breakers_to_declare
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.wire.plan import Plan


def rules(name: str, *tasks: str) -> BreakerRules:
    return BreakerRules(name, frozenset(tasks), 0.5, 10, 60, 30)


def there(name: str, *tasks: str) -> BreakerStatus:
    return BreakerStatus(rules(name, *tasks), BreakerState.OPEN, 0, 0, 0, 1, 2)


def declared(*known: str, old: list[BreakerStatus], new: list[BreakerRules]) -> list[BreakerRules]:
    return breakers_to_declare(old, new, frozenset(known))


def test_what_is_declared_is_told_as_it_is() -> None:
    assert declared("pay", old=[], new=[rules("bank", "pay")]) == [rules("bank", "pay")]
    assert declared("pay", old=[there("bank", "pay")], new=[]) == [rules("bank")]
    assert declared("pay", old=[], new=[]) == []


def test_a_task_that_left_a_breaker_is_held_back_by_it_no_longer() -> None:
    old = [there("bank", "pay", "refund")]
    assert declared("pay", "refund", old=old, new=[rules("bank", "pay")]) == [rules("bank", "pay")]
    assert declared("pay", "refund", old=old, new=[rules("psp", "pay")]) == [
        rules("psp", "pay"),
        rules("bank"),
    ]


def test_tasks_of_other_apps_stay_behind_a_breaker_of_the_same_name() -> None:
    old = [there("bank", "report"), there("mail", "send")]
    assert declared("pay", old=old, new=[rules("bank", "pay")]) == [rules("bank", "pay", "report")]


def test_worker_that_runs_removes_what_nobody_declares_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "_DECLARE_SECONDS", 0.01)
    store = open_store("sqlite://")
    old = SchedulePiece("task", "{}", "q", every=1, declared="a:app").schedule("old")
    store.put_schedule(old)
    new = NewSession("other", SessionKind.WORKER, "w", "h", 1, schedules=frozenset({"old"}))
    store.register(new)

    async def do(work: Callable[[], Any]) -> Any:
        return work()

    async def watch() -> None:
        line: Any = SimpleNamespace(store=store, do=do, failing_since=None)
        page: Any = None
        loops = services.Services(
            SessionScope(Plan("a:app"), "s", page, line, Ledger()), SessionParts()
        )
        declarer = Declarer(store, "a:app", {}, removes=True)
        running = asyncio.create_task(loops._declare_forever(declarer))
        await asyncio.sleep(0.1)
        assert store.schedule("old") is not None
        store.end("other", WorkerKilled(signal=9))
        async with asyncio.timeout(5):
            while store.schedule("old") is not None:
                await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(watch())
    store.close()
