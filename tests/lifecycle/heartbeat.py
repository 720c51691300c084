"""Watches the renewals of sessions from outside, as the store has them."""

import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import Self

from limpet.storage.contract.store import Store

EVERY_SECONDS = 0.02


class Heartbeat:
    """Reads every session's `renewed_at` all the time, in a thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._beats: defaultdict[str, list[int]] = defaultdict(list)
        self._trouble: BaseException | None = None
        self.ended: dict[str, int] = {}
        # For how long the machine ran nothing of ours, judged by a sleep that nobody else can hold.
        self.stall = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(20)
        if error is None and self._trouble is not None:
            raise self._trouble

    def _watch(self) -> None:
        try:
            while not self._over.is_set():
                for session in self._store.sessions(with_dead=True):
                    beats = self._beats[session.id]
                    if not beats or beats[-1] != session.renewed_at:
                        beats.append(session.renewed_at)
                    if session.ended_at is not None:
                        self.ended[session.id] = session.ended_at
                before = time.monotonic()
                time.sleep(EVERY_SECONDS)
                self.stall = max(self.stall, time.monotonic() - before - EVERY_SECONDS)
        except BaseException as error:
            self._trouble = error

    def beats(self, session: str) -> list[float]:
        """The wall times, in seconds, at which a session was seen to have renewed."""
        return [at / 1e6 for at in self._beats[session]]

    def latest(self, session: str, every_seconds: float) -> float:
        """By how many seconds the latest of its renewals came late."""
        beats = self.beats(session)
        gaps = [later - earlier for earlier, later in pairwise(beats)]
        return max(gaps, default=float("inf")) - every_seconds
