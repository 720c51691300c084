"""Asks a question that may hang, and goes on without an answer when it does."""

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
    """Asks in one thread; a thread that hangs is left behind, and another takes its place.

    A mount whose server is away, or a process that the kernel keeps in the middle of a read, may
    hold up whoever looks at it for ever. What hung at one place is not asked again there before it
    has come back, so the threads that are left behind are few.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long an answer is waited for."""
        self._seconds = seconds
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: no thread of the parent's is here."""
        self._one_at_a_time = threading.Lock()
        self._asked: _Questions[T] | None = None
        self._hanging: dict[str, tuple[str, Future[T]]] = {}

    def ask(self, place: str, subject: str, question: Callable[[], T]) -> T | None:
        """The answer; None if there is none in time, or none yet to what was asked there before.

        `subject`: of what it is asked at that place; a late answer is for the same one alone.
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
            return self._ask(place, subject, question)

    def _ask(self, place: str, subject: str, question: Callable[[], T]) -> T | None:
        if self._asked is None:
            asked: _Questions[T] = SimpleQueue()
            thread = threading.Thread(
                target=_serve, args=(asked,), name="limpet-proof", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # no more threads are to be had
                thread.start()
                self._asked = asked
        if self._asked is None:
            return None
        answer: Future[T] = Future()
        self._asked.put((question, answer))
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            if answer.done():  # the question itself raised it
                raise
            self._hanging[place] = subject, answer
            self._asked.put(None)
            self._asked = None
            return None


_Questions: TypeAlias = "SimpleQueue[tuple[Callable[[], T], Future[T]] | None]"


def _serve(asked: "_Questions[T]") -> None:
    while (each := asked.get()) is not None:
        question, answer = each
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)
