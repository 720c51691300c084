"""The zygote: imports the app once, single-threaded, then forks executors in milliseconds.

The zygote reaps the executors and reports how each died, after it has ended what they left behind.
Where the system allows it, the zygote is PID 1 of a pid namespace, so that nothing below it can
outlive it. An app that starts threads on import cannot be forked safely: then the zygote starts
over without the app and spawns executors, each of which imports the app anew.
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
from limpet.worker.executor import watched_calls
from limpet.worker.executor.registry import Registry, load_registry
from limpet.worker.executor.sources import Sources
from limpet.worker.wire.bounds import LONGEST_REASON, NotUnderstood, fit
from limpet.worker.wire.frames import (
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
from limpet.worker.wire.page import Page
from limpet.worker.wire.plan import Order, Plan, from_environment, order_from_environment

_PERIOD_SECONDS = 0.1
_LOOK_SECONDS = 0.25
_STRAY_SECONDS = 5.0
# Longest wait for executors hit by the same signal; one that writes a large core takes longer.
_TOGETHER_SECONDS = 0.5


class _Executor:
    """An executor as the zygote knows it.

    `memory_bytes`: its memory, if that was too much. `stopped_seconds`: how long it was stopped, if
    that was too long. `signals`: those that the worker has sent to it.
    """

    __slots__ = ("lowered", "memory_bytes", "pid", "signals", "stopped_seconds", "stopped_since")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory_bytes = 0
        self.stopped_seconds = 0.0
        self.stopped_since: float | None = None
        self.lowered = False
        self.signals: set[int] = set()

    def send(self, number: int) -> None:
        # An executor that is dying already does not die of this signal.
        if not is_dying(self.pid):
            self.signals.add(number)
        processes.kill([self.pid], number)

    def killed_from_outside(self, status: int) -> bool:
        """Whether it was killed by a signal that the worker did not send."""
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
        self._dead: list[tuple[int, int, _Executor]] = []  # number, wait status: not yet reported
        self._dead_since = 0.0
        self._memory_kills = processes.out_of_memory_kills()
        self._sources = Sources(order.sources) if plan.settings.reload else None

    def run(self) -> None:
        """Serve until the supervisor is gone; then end everything below and exit."""
        self._signal_pipe = SignalPipe(signal.SIGCHLD)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._signal_pipe, select.POLLIN)
        looked = time.monotonic()
        self._channel.send(PongFrame())
        while True:
            # A short wait while the processes that the dead left behind have not ended.
            milliseconds = 2 if self._dead else _PERIOD_SECONDS * 1000
            ready = {descriptor for descriptor, _ in poll.poll(milliseconds)}
            if self._page.over:
                self._leave()
            if self._signal_pipe.fileno() in ready:
                self._signal_pipe.read()  # it means only that a child has ended
            if self._channel.fileno() in ready:
                try:
                    self._act_on(self._channel.receive())
                    while self._channel.has_frames:
                        self._act_on(self._channel.receive())
                except (EOFError, ConnectionError, NotUnderstood):
                    self._leave()
            self._reap()
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                self._look()

    def _act_on(self, frame: ToZygote) -> None:
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
                pass  # `_own_namespace` has received it
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
            # The system lacks processes, memory or files just now: running executors go on.
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
        """In the forked child: let go of what belongs to the zygote, and run as an executor."""
        self._signal_pipe.leave_to_parent()
        processes.die_with_parent()
        if os.getppid() != zygote:
            os._exit(71)  # the zygote died before `die_with_parent` took effect
        os.close(self._channel.fileno())
        from limpet.worker.executor.executor import run_executor

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
        process = processes.spawn(
            "limpet.worker.executor.executor", environment, given, own_session=True
        )
        # Reaped by pid like a forked executor; without this the object would warn that it was not.
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
            self._report_deaths()

    def _more_are_dying(self) -> bool:
        """Whether a signal from outside is killing others too: all are then reported together.

        A sender kills several processes in one call, and none of them can be reaped before that
        call has signalled them all: those that die with the first are known by then.
        """
        if not any(executor.killed_from_outside(status) for _, status, executor in self._dead):
            return False
        if time.monotonic() - self._dead_since > _TOGETHER_SECONDS:
            return False
        return any(
            is_dying(executor.pid)
            for executor in self._executors.values()
            if signal.SIGKILL not in executor.signals
        )

    def _report_deaths(self) -> None:
        dead, self._dead, self._dead_since = self._dead, [], 0.0
        kills = processes.out_of_memory_kills()
        by_kernel, self._memory_kills = kills > self._memory_kills, kills
        from_outside = sum(executor.killed_from_outside(status) for _, status, executor in dead)
        for number, status, executor in dead:
            together = from_outside if executor.killed_from_outside(status) else 0
            facts = (executor.memory_bytes, executor.stopped_seconds, by_kernel, together)
            self._channel.send(DiedFrame(number, status, *facts))

    def _strays_are_gone(self) -> bool:
        """Kill what the dead left behind; their deaths are reported only once it is gone.

        Each call is one short step, so that the zygote still reads its frames. A process that
        cannot be killed, such as a program of another user, is waited for only `_STRAY_SECONDS`.
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
            self._check_memory(executor)
            self._check_stopped(executor)
            executor.lowered = executor.lowered or processes.lower_group(executor.pid)
        if self._sources is not None and (changed := self._sources.changed()):
            self._channel.send(ChangedFrame(fit(changed, LONGEST_REASON)))

    def _check_memory(self, executor: _Executor) -> None:
        limit = self._plan.settings.max_rss
        if limit is not None and not executor.memory_bytes:
            used = processes.resident_bytes(executor.pid)
            if used > limit:
                executor.memory_bytes = used
                executor.send(signal.SIGKILL)

    def _check_stopped(self, executor: _Executor) -> None:
        """Kill an executor that was stopped for too long: it holds jobs and does not run them."""
        moment = time.monotonic()
        if not processes.is_stopped(executor.pid):
            executor.stopped_since = None
        elif executor.stopped_since is None:
            executor.stopped_since = moment
        elif moment - executor.stopped_since > self._plan.freeze_seconds:
            executor.stopped_seconds = moment - executor.stopped_since
            executor.send(signal.SIGKILL)


def _own_namespace(order: Order, channel: Channel[ToZygote]) -> Order:
    """Go on as PID 1 of a new pid namespace, a child of the supervisor, if the system allows it."""
    if not order.namespace or order.contained or not processes.enter_pid_namespace():
        return order
    pid = os.fork()
    if pid:
        channel.send(PlaceFrame(pid))
        os._exit(0)
    # Wait until the supervisor has reaped our first parent: its death is not the supervisor's.
    channel.receive()
    if not processes.mount_own_proc():
        os._exit(processes.NO_OWN_PROC)
    return order._replace(contained=True)


def _follow(channel: Channel[ToZygote]) -> None:
    """Die with the supervisor; if it is dead already, its end of the channel is closed."""
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
    watched_calls.watch()  # before the app can import one of these functions by its name
    registry = None
    if plan.settings.reload and not order.sources:
        order = order._replace(sources=Sources().digest)
    if not order.spawn:
        registry = _import_app(plan, channel, order)
    gc.collect()
    gc.freeze()  # the collectors of executors leave the memory alone that they share with us
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
    from limpet.worker.executor import executor, lane_executor, loop_executor  # noqa: F401 - shared by all

    return registry


def _wait_for_change(error: str, order: Order) -> None:
    """Wait until the code changes: while it is edited, only a part of it may have been saved."""
    text = f"limpet: {printable(error)} Waiting for a change."
    print(text, file=sys.stderr, flush=True)
    sources = Sources(order.sources)
    while sources.changed() is None:
        time.sleep(_LOOK_SECONDS)


def _start_over(plan: Plan, order: Order) -> None:
    """Replace the program of this process by a new zygote, without the app and its threads."""
    for descriptor in order.descriptors:
        os.set_inheritable(descriptor, True)
    environment = {**os.environ, **plan.environment(order._asdict())}
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.executor.zygote"], environment)


if __name__ == "__main__":
    main()
