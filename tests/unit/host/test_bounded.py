"""A question that hangs is left behind, and others are answered."""

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from limpet.domain.session import NewSession, SessionKind, SessionLock
from limpet.host import locks, proofs
from limpet.host.bounded import Bounded
from limpet.storage.sqlite.store import SqliteStore

SOON = 0.1
PATIENCE_SECONDS = 30.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs until it is set."""
    event = threading.Event()
    yield event
    event.set()


def test_question_that_hangs_has_no_answer_and_others_have_theirs(gate: threading.Event) -> None:
    bounded: Bounded[bool] = Bounded(SOON)
    assert bounded.query("hung", "1", lambda: gate.wait(PATIENCE_SECONDS)) is None
    until = time.monotonic() + PATIENCE_SECONDS
    while not bounded.query("here", "2", lambda: True):  # on a busy machine it comes late
        assert time.monotonic() < until
    assert bounded.query("hung", "2", lambda: True) is None, "what hangs is not asked again"


def test_late_answer_counts_for_whom_it_was_asked(gate: threading.Event) -> None:
    bounded: Bounded[str] = Bounded(SOON)
    done = threading.Event()

    def late() -> str:
        gate.wait(PATIENCE_SECONDS)
        done.set()
        return "late"

    assert bounded.query("hung", "1", late) is None
    gate.set()
    assert done.wait(PATIENCE_SECONDS)
    until = time.monotonic() + PATIENCE_SECONDS
    while (answer := bounded.query("hung", "1", lambda: "new")) is None:
        assert time.monotonic() < until
    assert answer == "late"


def test_so_many_hang_at_the_most(gate: threading.Event) -> None:
    bounded: Bounded[bool] = Bounded(SOON)
    before = threading.active_count()
    for number in range(12):
        assert bounded.query(str(number), "1", lambda: gate.wait(PATIENCE_SECONDS)) is None
    assert threading.active_count() - before <= 4


def test_error_of_a_question_reaches_who_asked_it() -> None:
    def fails() -> bool:
        raise ValueError("no")

    bounded: Bounded[bool] = Bounded(PATIENCE_SECONDS)
    with pytest.raises(ValueError, match="no"):
        bounded.query("here", "1", fails)
    assert bounded.query("here", "1", lambda: True)


def test_child_asks_in_a_thread_of_its_own() -> None:
    bounded: Bounded[bool] = Bounded(PATIENCE_SECONDS)
    assert bounded.query("here", "1", lambda: True)
    child = os.fork()
    if child == 0:
        os._exit(0 if bounded.query("here", "1", lambda: True) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("path", "inode", "nonce"), [(["x"], 1, "n"), (7, 1, "n"), ("/x", "1", "n"), ("/x", 1, None)]
)
def test_values_of_another_type_in_a_row_prove_nothing(
    path: Any, inode: Any, nonce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a store may hold anything; only what a guardian writes is looked at."""
    asked: list[Any] = []
    monkeypatch.setattr(locks, "proves_death", lambda *facts: asked.append(facts))
    store = SqliteStore("sqlite://")
    new = NewSession("1" * 26, SessionKind.WORKER, "w", "h", 1)
    store.register(new)
    (session,) = store.sessions()
    told = replace(session, lock=SessionLock(path, inode, nonce))
    assert not proofs.proof(told)
    proofs.forget(told)
    assert asked == []
