"""A process that may start no more threads for a moment works again afterwards."""

import contextlib
import threading
from datetime import timedelta

import pytest

from limpet.domain.clock import SystemClock
from limpet.domain.errors import LimpetError
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store

IDS = IdSource(SystemClock())


def test_thread_that_could_not_start_is_started_the_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with contextlib.suppress(RuntimeError, LimpetError):
            store.enqueue([NewJob(IDS.new(), "task", "{}")])
        with contextlib.suppress(RuntimeError, LimpetError):
            store.listen(Topic.READY)
    with contextlib.closing(store.listen(Topic.READY)) as bell:
        store.enqueue([NewJob(IDS.new(), "task", "{}")])
        assert bell.wait(timedelta(seconds=30))
