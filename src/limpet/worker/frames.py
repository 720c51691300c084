"""What supervisor, zygote and executors say to each other: length-prefixed msgpack.

A frame is an array whose first element says its kind. What the hot path sends by the thousand are
the domain's own named tuples, which are encoded and decoded without a step in Python. The length
comes twice, the second time with every bit turned: what somebody else wrote into the socket is
known for it at once, and is not taken for the length of a frame that never ends.
"""

import socket
import struct
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from limpet.domain.breaker import BreakerRules
from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.domain.weight import Weight

_HEADER = struct.Struct("<II")
HEADER_BYTES: Final = _HEADER.size
_TURNED = 0xFFFFFFFF
_SHORTEST = 2  # an array, and its kind

# The kinds of executor.
LOOP: Final = "loop"
LANE: Final = "lane"

# Supervisor to executor.
RUN: Final = 1  # [RUN, jobs, {job: cause of the loss that its hook is to hear of}]
RECALL: Final = 2  # [RECALL]: forget what has not started; answered by RECALLED
STOP: Final = 3  # [STOP, job, token, cause, whether to interrupt it too]
PING: Final = 4  # [PING, n]
END: Final = 5  # [END]: finish what runs, run the stop hooks, exit

# Executor to supervisor.
READY: Final = 11  # [READY] or [READY, why it could not start]
DONE: Final = 12  # [DONE, completes]
OUTCOME: Final = 13  # [OUTCOME, Outcome]
RECALLED: Final = 14  # [RECALLED]
PONG: Final = 15  # [PONG, n]
REPORT: Final = 16  # [REPORT, job, token, (done, total, note) or None, [(at, level, message)]]
BLOCKED: Final = 17  # [BLOCKED, job or None, where]: on the pipe for notes

# Supervisor to zygote, and back.
FORK: Final = 21  # [FORK, executor, kind] with four descriptors
ADOPTED: Final = 20  # [ADOPTED]: the zygote is now a child of the supervisor
KILL: Final = 22  # [KILL, executor]
SIGNAL: Final = 23  # [SIGNAL, executor, number]
PLACE: Final = 30  # [PLACE, pid]: where the zygote is, once it has its own namespace
CATALOG: Final = 31  # [CATALOG, Catalog]
REFUSED: Final = 32  # [REFUSED, why the app cannot be used]
DIED: Final = (
    33  # [DIED, executor, wait status, bytes if too many, seconds if frozen, by the kernel]
)
FAILED: Final = 35  # [FAILED, executor, why it could not be started]
CHANGED: Final = 34  # [CHANGED, file]


class Outcome(NamedTuple):
    """How an attempt ended otherwise than by success, decided in its executor.

    `kind` is one of "complete", "retry", "fail", "snooze", "quarantine", "cancel", "release",
    "fan_out". `delay`: seconds until the next attempt. `doomed`: what of the attempt could not be
    ended; the executor must die before this is settled. `relaunch`: seconds until a failed job
    gets another chance by itself. `holds`: the whole queue waits for `delay`. `fan`: the flow in
    which the children are staged, in how many chunks, and how many they are.
    """

    lease: Lease
    kind: str
    delay: float = 0.0
    cause: dict[str, Any] | None = None
    result: str = "null"
    secrets: tuple[str, ...] = ()
    doomed: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    relaunch: float | None = None
    holds: bool = False
    fan: tuple[str, int, int] | None = None


class TaskFacts(NamedTuple):
    """What the supervisor must know of a task."""

    name: str
    in_lane: bool
    has_hook: bool
    takes_context: bool
    relaunches: bool = False
    weight: Weight | None = None
    gives_way: bool = False


class Catalog(NamedTuple):
    """What the zygote found when it imported the app."""

    url: str
    tasks: list[TaskFacts]
    retention: dict[str, float]
    threads: int
    contained: bool
    # What the app says of its queues: how much may be under way, and how long it is kept.
    queues: dict[str, QueueRules]
    queue_retention: dict[str, dict[str, float]]
    breakers: list[BreakerRules]
    # What the app declares of schedules, by id, as `storage.furniture` writes it; and whether those
    # that it no longer declares are removed.
    schedules: dict[str, str]
    removes_schedules: bool

    def names(self, *, in_lane: bool) -> frozenset[str]:
        """The tasks that run in a lane, or in the loop."""
        return frozenset(facts.name for facts in self.tasks if facts.in_lane == in_lane)

    def weights(self) -> dict[str, Weight]:
        """The tasks that have a weight; all others are light."""
        return {facts.name: facts.weight for facts in self.tasks if facts.weight is not None}

    def giving_way(self) -> frozenset[str]:
        """The tasks whose attempts are handed back when the host is pressed for memory."""
        return frozenset(facts.name for facts in self.tasks if facts.gives_way)

    def bounded(self) -> list[str]:
        """The queues of which only so much may be under way."""
        return [name for name, rules in self.queues.items() if rules.is_bounded]

    def retentions(self) -> "tuple[Retention, dict[str, Retention]]":
        """How long finished jobs are kept, by state; and by queue, where that differs."""
        by_queue = {queue: _kept(each) for queue, each in self.queue_retention.items()}
        return _kept(self.retention), by_queue


Retention: TypeAlias = dict[State, timedelta]


def _kept(seconds: dict[str, float]) -> Retention:
    return {State(name): timedelta(seconds=each) for name, each in seconds.items()}


def catalog_of(raw: list[Any]) -> Catalog:
    """A catalog as it came with a frame."""
    return msgspec.convert(raw, Catalog)


class RunFrame(NamedTuple):
    kind: int
    jobs: list[ClaimedJob]
    lost: dict[str, dict[str, Any]]


class DoneFrame(NamedTuple):
    kind: int
    completes: list[Complete]


class OutcomeFrame(NamedTuple):
    kind: int
    outcome: Outcome


_encoder = msgspec.msgpack.Encoder()
_any = msgspec.msgpack.Decoder()
_TYPED: dict[int, Any] = {
    RUN: msgspec.msgpack.Decoder(RunFrame),
    DONE: msgspec.msgpack.Decoder(DoneFrame),
    OUTCOME: msgspec.msgpack.Decoder(OutcomeFrame),
}


def header(size: int) -> bytes:
    """What goes before that many bytes."""
    return _HEADER.pack(size, size ^ _TURNED)


def size_after(data: bytes | memoryview, at: int = 0) -> int:
    """How many bytes come after a header; raises `msgspec.DecodeError` if it is none."""
    size, turned = _HEADER.unpack_from(data, at)
    if size ^ _TURNED != turned or size < _SHORTEST:
        raise msgspec.DecodeError("something else was written there")
    return int(size)


def pack(*frame: Any) -> bytes:
    """A frame as it travels."""
    body = _encoder.encode(frame)
    return header(len(body)) + body


def unpack(body: bytes | memoryview) -> Any:
    """The frame in a body; its kind is the second byte, because every array here is short."""
    decoder = _TYPED.get(body[1], _any)
    return decoder.decode(body)


class Splitter:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts: list[bytes] = []  # of a frame that comes in many pieces
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[Any]:
        """Each whole frame of what has come so far; `msgspec.DecodeError` for what is none."""
        if self._missing > len(data):
            self._parts.append(data)
            self._missing -= len(data)
            return
        if self._rest:
            data = b"".join((self._rest, *self._parts, data))
            self._parts, self._missing = [], 0
        view, at, end = memoryview(data), 0, len(data)
        while end - at >= HEADER_BYTES:
            first = at + HEADER_BYTES
            size = size_after(view, at)
            if end - first < size:
                self._missing = size - (end - first)
                break
            yield unpack(view[first : first + size])
            at = first + size
        self._rest = data[at:] if at else data


class Channel:
    """Frames over a blocking socket, with descriptors beside them."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._splitter = Splitter()
        self._waiting: deque[Any] = deque()
        self.descriptors: deque[int] = deque()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, *frame: Any, descriptors: Sequence[int] = ()) -> None:
        data = pack(*frame)
        if descriptors:
            sent = self.sock.sendmsg(
                [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
            )
            data = data[sent:]
        self.sock.sendall(data)

    def receive(self) -> Any:
        """The next frame; raises EOFError when the other side is gone."""
        while not self._waiting:
            data, descriptors, _, _ = socket.recv_fds(self.sock, 65536, 16)
            self.descriptors += descriptors
            if not data:
                raise EOFError
            self._waiting += self._splitter.feed(data)
        return self._waiting.popleft()

    @property
    def has_frames(self) -> bool:
        """Whether a frame was read and not yet received."""
        return bool(self._waiting)
