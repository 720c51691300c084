"""The zygote: imports the app once, single-threaded, then forks executors in milliseconds.

It reaps them and reports how each died, after it has ended what they left behind. Where it is
allowed it is PID 1 of a pid namespace, so that nothing below it can outlive it. An app that starts
threads on import cannot be forked safely: then the zygote forgets the app and spawns executors,
each of which imports it anew.
"""

import errno
import gc
import os
import select
import signal
import socket
import sys
import time
from typing import NoReturn, assert_never

from limpet.domain.errors import LimpetError
from limpet.domain.printable import printable
from limpet.host import marks, processes
from limpet.host.dying import is_dying
from limpet.host.signals import SignalPipe
from limpet.worker import watched_calls
from limpet.worker.bounds import LONGEST_REASON, NotUnderstood, fit
from limpet.worker.frames import (
    TO_ZYGOTE,
    AdoptedFrame,
    CatalogFrame,
    ChangedFrame,
    Channel,
    DiedFrame,
    FailedFrame,
    ForkFrame,
    KillFrame,
    Kind,
    PingFrame,
    PlaceFrame,
    PongFrame,
    RefusedFrame,
    SignalFrame,
    ToZygote,
)
from limpet.worker.page import Page
from limpet.worker.plan import Order, Plan, from_environment, order_from_environment
from limpet.worker.registry import Registry, load_registry
from limpet.worker.sources import Sources

_PERIOD_SECONDS = 0.1
_LOOK_SECONDS = 0.25
_STRAY_SECONDS = 5.0
# One that writes a large core is not waited for.
_TOGETHER_SECONDS = 0.5


class _Executor:
    """An executor as the zygote knows it.

    `over`: its bytes, when they were too many; `frozen`: its seconds, when they were. `signals`:
    those that the worker has sent it.
    """

    __slots__ = ("frozen", "lowered", "over", "pid", "signals", "stopped_since")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.over = 0
        self.frozen = 0.0
        self.stopped_since: float | None = None
        self.lowered = False
        self.signals: set[int] = set()

    def send(self, number: int) -> None:
        # What it is dying of already it did not get from here.
        if not is_dying(self.pid):
            self.signals.add(number)
        processes.kill([self.pid], number)

    def died_of_a_stranger(self, status: int) -> bool:
        """Whether a signal ended it that nobody of the worker has sent."""
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) not in self.signals


class Zygote:
    """Forks or spawns executors on demand, and ends them."""

    def __init__(
        self, plan: Plan, order: Order, channel: Channel[ToZygote], registry: Registry | None
    ):
        self._plan = plan
        self._order = order
        self._channel = channel
        self._page = Page(order.page)
        self._registry = registry
        self._executors: dict[int, _Executor] = {}
        self._dead: list[tuple[int, int, _Executor]] = []  # number, wait status: not yet told
        self._dead_since = 0.0
        self._memory_kills = processes.out_of_memory_kills()
        self._sources = Sources(order.sources) if plan.settings.reload else None

    def run(self) -> None:
        """Serve until the supervisor is gone; then nothing below may live."""
        self._signal_pipe = SignalPipe(signal.SIGCHLD)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._signal_pipe, select.POLLIN)
        looked = time.monotonic()
        self._channel.send(PongFrame())
        while True:
            # Soon again while the dead wait for what they left behind to end.
            milliseconds = 2 if self._dead else _PERIOD_SECONDS * 1000
            ready = {descriptor for descriptor, _ in poll.poll(milliseconds)}
            if self._page.over:
                self._leave()
            if self._signal_pipe.fileno() in ready:
                self._signal_pipe.read()  # which only says that a child has ended
            if self._channel.fileno() in ready:
                try:
                    self._obey(self._channel.receive())
                    while self._channel.has_frames:
                        self._obey(self._channel.receive())
                except (EOFError, ConnectionError, NotUnderstood):
                    self._leave()
            self._reap()
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                self._look()

    def _obey(self, frame: ToZygote) -> None:
        match frame:
            case PingFrame():
                self._channel.send(PongFrame())
            case ForkFrame(number, kind):
                self._fork(number, kind)
            case KillFrame(number):
                self._signal(number, signal.SIGKILL)
            case SignalFrame(number, which):
                self._signal(number, which)
            case AdoptedFrame():
                pass  # heard before it went on in its namespace
            case _:
                assert_never(frame)

    def _signal(self, number: int, which: int) -> None:
        if executor := self._executors.get(number):
            executor.send(which)

    # -- executors

    def _fork(self, number: int, kind: Kind) -> None:
        waiting = self._channel.descriptors
        descriptors = [waiting.popleft() for _ in range(min(4, len(waiting)))]
        try:
            if len(descriptors) < 4:
                raise OSError(errno.EMFILE, "too many open files")
            self._executors[number] = _Executor(self._start(kind, descriptors))
        except OSError as error:
            # No more processes, memory or files just now: those that run have no part in it.
            reason = f"it could not be forked: {error.strerror}"
            self._channel.send(FailedFrame(number, fit(reason, LONGEST_REASON)))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, kind: Kind, descriptors: list[int]) -> int:
        if self._registry is None:
            return self._spawn(kind, descriptors)
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(zygote, kind, descriptors)
            finally:
                os._exit(70)
        return pid

    def _become(self, zygote: int, kind: Kind, descriptors: list[int]) -> None:
        """In the forked child: leave the zygote behind and run as an executor."""
        self._signal_pipe.leave_to_parent()
        processes.die_with_parent()
        if os.getppid() != zygote:
            os._exit(71)  # the zygote died before it could be followed
        os.close(self._channel.fileno())
        from limpet.worker.executor import run_executor

        assert self._registry is not None
        run_executor(kind, self._plan, self._registry, self._page, descriptors)

    def _spawn(self, kind: Kind, descriptors: list[int]) -> int:
        order = {
            "kind": kind,
            "descriptors": descriptors,
            "parent": os.getpid(),
            "page": self._order.page,
            "lock": self._order.lock,
        }
        environment = {**os.environ, **self._plan.environment(order)}
        given = (*descriptors, self._order.page, self._order.lock)
        process = processes.spawn("limpet.worker.executor", environment, given, own_session=True)
        # Reaped by pid like the forked ones; the object would only complain that it was not.
        process.returncode = 0
        return process.pid

    # -- death

    def _reap(self) -> None:
        numbers = {executor.pid: number for number, executor in self._executors.items()}
        for pid, status in processes.reaped():
            if pid in numbers:
                number = numbers[pid]
                self._dead.append((number, status, self._executors.pop(number)))
                self._dead_since = self._dead_since or time.monotonic()
        if self._dead and self._strays_are_gone() and not self._more_are_dying():
            self._tell_deaths()

    def _more_are_dying(self) -> bool:
        """Whether somebody's signal has hit others too: all of them are told together.

        Who signals several processes does so in one call, and none of them can be reaped before
        that call has gone through them all: what is to die with the first is known by then.
        """
        if not any(executor.died_of_a_stranger(status) for _, status, executor in self._dead):
            return False
        if time.monotonic() - self._dead_since > _TOGETHER_SECONDS:
            return False
        others = (each for each in self._executors.values() if signal.SIGKILL not in each.signals)
        return any(is_dying(each.pid) for each in others)

    def _tell_deaths(self) -> None:
        dead, self._dead, self._dead_since = self._dead, [], 0.0
        kills = processes.out_of_memory_kills()
        by_kernel, self._memory_kills = kills > self._memory_kills, kills
        strangers = sum(each.died_of_a_stranger(status) for _, status, each in dead)
        for number, status, executor in dead:
            together = strangers if executor.died_of_a_stranger(status) else 0
            facts = (executor.over, executor.frozen, by_kernel, together)
            self._channel.send(DiedFrame(number, status, *facts))

    def _strays_are_gone(self) -> bool:
        """End what the dead left behind, which is ours now; nobody is told before it is gone.

        One step at a time, so that the zygote hears everything meanwhile. What cannot be killed
        at all, such as a program of another user, is waited for in vain only for so long.
        """
        known = {executor.pid for executor in self._executors.values()}
        strays = [pid for pid in processes.children_of_self() if pid not in known]
        living = [pid for pid in strays if not processes.is_zombie(pid)]
        processes.kill(living)
        return not living or time.monotonic() - self._dead_since > _STRAY_SECONDS

    def _leave(self) -> NoReturn:
        me = os.getpid()
        processes.end_all(lambda: processes.descendants(me), seconds=1.0)
        os._exit(0)

    # -- now and then

    def _look(self) -> None:
        for executor in self._executors.values():
            self._look_at_memory(executor)
            self._look_whether_stopped(executor)
            executor.lowered = executor.lowered or processes.lower_group(executor.pid)
        if self._sources is not None and (changed := self._sources.changed()):
            self._channel.send(ChangedFrame(fit(changed, LONGEST_REASON)))

    def _look_at_memory(self, executor: _Executor) -> None:
        limit = self._plan.settings.max_rss
        if limit is not None and not executor.over:
            used = processes.resident_bytes(executor.pid)
            if used > limit:
                executor.over = used
                executor.send(signal.SIGKILL)

    def _look_whether_stopped(self, executor: _Executor) -> None:
        """One that is stopped holds jobs and does not run them: as good as dead."""
        moment = time.monotonic()
        if not processes.is_stopped(executor.pid):
            executor.stopped_since = None
        elif executor.stopped_since is None:
            executor.stopped_since = moment
        elif moment - executor.stopped_since > self._plan.frozen:
            executor.frozen = moment - executor.stopped_since
            executor.send(signal.SIGKILL)


def _own_namespace(order: Order, channel: Channel[ToZygote]) -> Order:
    """Go on as PID 1 of a new pid namespace, a child of the supervisor, where that is allowed."""
    if not order.namespace or order.contained or not processes.enter_pid_namespace():
        return order
    pid = os.fork()
    if pid:
        channel.send(PlaceFrame(pid))
        os._exit(0)
    # Until the one that forked us is reaped, its death would be taken for the supervisor's.
    channel.receive()
    if not processes.mount_own_proc():
        os._exit(processes.NO_OWN_PROC)
    return order._replace(contained=True)


def _follow(channel: Channel[ToZygote]) -> None:
    """Die with the supervisor; one that is dead already has closed its end."""
    processes.die_with_parent()
    poll = select.poll()
    poll.register(channel, select.POLLHUP)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        os._exit(71)


def main() -> None:
    order = Order(**order_from_environment())
    for descriptor in order.descriptors:
        os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=order.channel), TO_ZYGOTE)
    order = _own_namespace(order, channel)
    processes.set_name(marks.ZYGOTE)
    processes.adopt_orphans()
    _follow(channel)
    processes.withstand(*processes.GROUP_SIGNALS)
    processes.take_signals()
    plan = from_environment()
    watched_calls.watch()  # before anybody has imported one of them by its name
    registry = None
    if plan.settings.reload and not order.sources:
        order = order._replace(sources=Sources().digest)
    if not order.spawn:
        registry = _import_app(plan, channel, order)
    gc.collect()
    gc.freeze()  # what executors share with us is not touched by their collector
    Zygote(plan, order, channel, registry).run()


def _import_app(plan: Plan, channel: Channel[ToZygote], order: Order) -> Registry:
    try:
        registry = load_registry(plan)
    except LimpetError as error:
        if not plan.settings.reload:
            channel.send(RefusedFrame(fit(str(error), LONGEST_REASON)))
            sys.exit(2)
        _wait_for_change(str(error), order)
        _start_over(plan, order._replace(sources=""))
    threads = processes.thread_count()
    channel.send(CatalogFrame(registry.catalog(threads, order.contained)))
    if threads > 1:
        _start_over(plan, order._replace(spawn=True))
    from limpet.worker import executor, lane_executor, loop_executor  # noqa: F401 - shared by all

    return registry


def _wait_for_change(error: str, order: Order) -> None:
    """While somebody works on the code it may be saved half; wait for the other half."""
    text = f"limpet: {printable(error)} Waiting for a change."
    print(text, file=sys.stderr, flush=True)
    sources = Sources(order.sources)
    while sources.changed() is None:
        time.sleep(_LOOK_SECONDS)


def _start_over(plan: Plan, order: Order) -> None:
    """Forget the app and its threads: the same process, with a new program in it."""
    for descriptor in order.descriptors:
        os.set_inheritable(descriptor, True)
    environment = {**os.environ, **plan.environment(order._asdict())}
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.zygote"], environment)


if __name__ == "__main__":
    main()
