"""Runs a query that may hang, and goes on without an answer if it does."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

from limpet.domain.fork import anew_in_child

T = TypeVar("T")

_MOST_HANGING = 4


class Bounded(Generic[T]):
    """Runs queries in one thread; a thread that hangs is left behind, and another takes its place.

    A mount whose server is away, or a process that the kernel keeps in the middle of a read, may
    block its reader for ever. After a query hung at one place, no other is made there before it has
    come back, so the threads that are left behind are few.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long to wait for an answer."""
        self._seconds = seconds
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a forked child: it has no thread of the parent."""
        self._one_at_a_time = threading.Lock()
        self._questions: _Questions[T] | None = None
        self._hanging: dict[str, tuple[str, Future[T]]] = {}

    def query(self, place: str, subject: str, question: Callable[[], T]) -> T | None:
        """The answer; None if it does not come in time, or an earlier query there still hangs.

        `subject`: what the question at that place is about; a late answer counts only for the same
        subject.
        """
        with self._one_at_a_time:
            if place in self._hanging:
                about, late = self._hanging[place]
                if not late.done():
                    return None
                del self._hanging[place]
                if about == subject and late.exception() is None:
                    return late.result()
            elif len(self._hanging) >= _MOST_HANGING:
                return None
            return self._query(place, subject, question)

    def _query(self, place: str, subject: str, question: Callable[[], T]) -> T | None:
        if self._questions is None:
            questions: _Questions[T] = SimpleQueue()
            thread = threading.Thread(
                target=_serve, args=(questions,), name="limpet-proof", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # no more threads are to be had
                thread.start()
                self._questions = questions
        if self._questions is None:
            return None
        answer: Future[T] = Future()
        self._questions.put((question, answer))
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            if answer.done():  # the question itself raised it
                raise
            self._hanging[place] = subject, answer
            self._questions.put(None)
            self._questions = None
            return None


_Questions: TypeAlias = "SimpleQueue[tuple[Callable[[], T], Future[T]] | None]"


def _serve(questions: "_Questions[T]") -> None:
    while (entry := questions.get()) is not None:
        question, answer = entry
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)
