"""Frames: what supervisor, zygote and executors send each other, as length-prefixed msgpack.

A frame is an array whose first element is its kind. Each kind is one struct, and each direction is
one union of kinds: a decoder accepts the kinds of its direction only, with every value within
bounds, or raises `NotUnderstood`. The values that the hot path sends by the thousand are the
domain's own named tuples, which are encoded and decoded without a step in Python.

The length comes twice, the second time with every bit inverted. So bytes that other code wrote into
the socket are recognised at once, and are not taken for the length of a frame that never ends.
"""

import socket
import struct
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete
from limpet.worker.wire.bounds import (
    MOST_LINES_PER_REPORT,
    Amount,
    Id,
    Line,
    Moment,
    Note,
    NotUnderstood,
    Place,
    Reason,
    Whole,
    Word,
)
from limpet.worker.wire.catalog import Catalog, check_catalog
from limpet.worker.wire.endings import CompleteFrame, EndingFrame, check_complete

_HEADER = struct.Struct("<II")
HEADER_BYTES: Final = _HEADER.size
_INVERTED = 0xFFFFFFFF
_SHORTEST = 2  # an array, and its kind
ANY_SIZE: Final = _INVERTED
# A frame of completes larger than the first is split; no other frame is larger than both together.
_BATCH_BYTES, _REST_BYTES = 256 * 1024, 1024 * 1024
_MOST_EXECUTORS = 1_000_000
LARGEST_NOTE_BYTES: Final = 8 * 1024
LARGEST_ZYGOTE_BYTES: Final = 256 * 1024 * 1024

# The byte in the pipe of start tokens, one for each job that may start.
START_TOKEN: Final = b"."

# The kinds of executor.
LOOP: Final = "loop"
LANE: Final = "lane"
Kind: TypeAlias = Literal["loop", "lane"]
KINDS: Final[tuple[Kind, ...]] = (LOOP, LANE)

CauseRecord: TypeAlias = dict[str, str | int | float | bool | None]
"""A cause as the timeline keeps it; `domain.cause.cause_of` reads it."""


class Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One message between two processes of a worker."""


# -- supervisor to executor


class RunFrame(Frame, frozen=True, tag=1):
    """Run these jobs; `losses`: by job, the loss with which its orphan hook must be called."""

    jobs: list[ClaimedJob]
    losses: dict[str, CauseRecord]


class RecallFrame(Frame, frozen=True, tag=2):
    """Forget the jobs that have not started; answered by `RecalledFrame`."""


class StopFrame(Frame, frozen=True, tag=3):
    """Stop a job; `interrupt`: even if its code does not check for it."""

    job: str
    token: int
    cause: CauseRecord
    interrupt: bool


class PingFrame(Frame, frozen=True, tag=4):
    """A check that an executor or the zygote still answers."""

    number: int = 0


class EndFrame(Frame, frozen=True, tag=5):
    """Finish what runs, run the stop hooks, exit."""


# -- executor to supervisor


class ReadyFrame(Frame, frozen=True, tag=11):
    """Sent once: the executor can run jobs, or cannot start because of an error."""

    error: Reason = ""


class DoneFrame(Frame, frozen=True, tag=12):
    completes: list[Complete]


class RecalledFrame(Frame, frozen=True, tag=14):
    """The jobs that had not started are forgotten."""


class PongFrame(Frame, frozen=True, tag=15):
    """The answer to the ping of that number; the zygote also sends one when it is ready."""

    number: Whole = 0


class ReportFrame(Frame, frozen=True, tag=16):
    """How far a job is (done, total, note), and lines of its log (at, level, message)."""

    lease: Lease
    progress: tuple[Amount, Amount | None, Note] | None
    lines: Annotated[list[tuple[Moment, Word, Line]], Meta(max_length=MOST_LINES_PER_REPORT)]


class UnfitFrame(Frame, frozen=True, tag=18):
    """A job has changed the process for good: it starts nothing more and must be replaced."""

    job: Id
    task: Place
    what: Reason


class BlockedFrame(Frame, frozen=True, tag=17):
    """Sent on the notes pipe: the line that keeps a loop busy, and its job where there is one."""

    job: Id | None
    where: Place


# -- supervisor to zygote


class ForkFrame(Frame, frozen=True, tag=21):
    """Start an executor; its four descriptors are sent with the frame."""

    executor: int
    kind: Kind


class AdoptedFrame(Frame, frozen=True, tag=20):
    """The zygote is now a child of the supervisor."""


class KillFrame(Frame, frozen=True, tag=22):
    executor: int


class SignalFrame(Frame, frozen=True, tag=23):
    executor: int
    number: int


# -- zygote to supervisor


class PlaceFrame(Frame, frozen=True, tag=30):
    """The pid of the zygote in its own namespace, as the supervisor sees it."""

    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class CatalogFrame(Frame, frozen=True, tag=31):
    catalog: Catalog


class RefusedFrame(Frame, frozen=True, tag=32):
    """Why the app cannot be used."""

    reason: Reason


class DiedFrame(Frame, frozen=True, tag=33):
    """How an executor died.

    `status`: as `os.wait` returns it. `memory_bytes`: its memory, if that was too much.
    `stopped_seconds`: how long it was stopped, if that was too long. `by_kernel`: whether the
    kernel has killed processes for want of memory. `together`: how many died at once of a signal
    that the worker did not send, this one included.
    """

    executor: Whole
    status: Annotated[int, Meta(ge=0, le=0xFFFF)]
    memory_bytes: Whole
    stopped_seconds: Amount
    by_kernel: bool
    together: Annotated[int, Meta(ge=0, le=_MOST_EXECUTORS)]


class ChangedFrame(Frame, frozen=True, tag=34):
    file: Reason


class FailedFrame(Frame, frozen=True, tag=35):
    """Why an executor could not be started."""

    executor: Whole
    error: Reason


FromSupervisor: TypeAlias = RunFrame | RecallFrame | StopFrame | PingFrame | EndFrame
SingleFrame: TypeAlias = (
    ReadyFrame | RecalledFrame | PongFrame | ReportFrame | UnfitFrame | EndingFrame
)
FromExecutor: TypeAlias = DoneFrame | SingleFrame
ToZygote: TypeAlias = ForkFrame | AdoptedFrame | KillFrame | SignalFrame | PingFrame
FromZygote: TypeAlias = (
    PlaceFrame | CatalogFrame | RefusedFrame | DiedFrame | ChangedFrame | FailedFrame | PongFrame
)
AnyFrame: TypeAlias = FromSupervisor | FromExecutor | BlockedFrame | ToZygote | FromZygote

F = TypeVar("F")


class Decoder(Generic[F]):
    """Decodes the frames of one direction; only here do bytes become values.

    A decoded frame is of a kind of that direction, each value of its type and within its bounds.
    """

    def __init__(self, kinds: object, largest: int = ANY_SIZE) -> None:
        """`largest`: the most bytes of a frame."""
        self._decode = msgspec.msgpack.Decoder(kinds).decode
        self.largest = largest

    def decode(self, body: bytes | memoryview) -> F:
        """The frame in a body; raises `NotUnderstood`."""
        try:
            frame: F = self._decode(body)
        # The decoder runs no code of ours: whatever it raises, the body is the reason.
        except Exception as error:
            raise NotUnderstood(f"{error}"[:500]) from None
        if isinstance(frame, DoneFrame):
            for complete in frame.completes:
                # Most jobs return None without secrets or counts: nothing to check.
                if complete[1] != "null" or complete[2] or complete[3]:
                    check_complete(complete)
        elif isinstance(frame, CompleteFrame):
            check_complete(frame.complete)
        elif isinstance(frame, CatalogFrame):
            check_catalog(frame.catalog)
        return frame


def from_executor(payload_limit: int) -> Decoder[FromExecutor]:
    """The decoder for the frames of an executor; `payload_limit`: the most bytes of a result."""
    return Decoder(FromExecutor, 2 * payload_limit + _BATCH_BYTES + _REST_BYTES)


FROM_SUPERVISOR: Final = Decoder[FromSupervisor](FromSupervisor)
FROM_NOTES: Final = Decoder[BlockedFrame](BlockedFrame, LARGEST_NOTE_BYTES)
TO_ZYGOTE: Final = Decoder[ToZygote](ToZygote)
FROM_ZYGOTE: Final = Decoder[FromZygote](FromZygote, LARGEST_ZYGOTE_BYTES)

_encoder = msgspec.msgpack.Encoder()


def header(size: int) -> bytes:
    """The header of a body of so many bytes."""
    return _HEADER.pack(size, size ^ _INVERTED)


def size_after(data: bytes | memoryview, at: int = 0) -> int:
    """The size of the body after the header at `at`; raises `NotUnderstood` for other bytes."""
    size, inverted = _HEADER.unpack_from(data, at)
    if size ^ _INVERTED != inverted or size < _SHORTEST:
        raise NotUnderstood("something else than a frame was written there")
    return int(size)


def pack(frame: AnyFrame) -> bytes:
    """A frame as bytes, with its header."""
    body = _encoder.encode(frame)
    return header(len(body)) + body


def pack_done(completes: list[Complete]) -> bytes:
    """Completes as bytes, in as many frames as they need to stay within the largest size."""
    data = pack(DoneFrame(completes))
    if len(data) <= _BATCH_BYTES or len(completes) == 1:
        return data
    half = len(completes) // 2
    return pack_done(completes[:half]) + pack_done(completes[half:])


def send(sock: socket.socket, frame: AnyFrame, descriptors: Sequence[int] = ()) -> None:
    """Send a frame over a blocking socket, together with descriptors."""
    data = pack(frame)
    if descriptors:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
        data = data[sock.sendmsg([data], rights) :]
    sock.sendall(data)


class Splitter(Generic[F]):
    """Cuts a stream into frames of one direction."""

    def __init__(self, decoder: Decoder[F]) -> None:
        self._decoder = decoder
        self._rest = b""
        self._parts: list[bytes] = []  # the pieces of a frame that is not complete
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[F]:
        """Take bytes; yield each complete frame; raises `NotUnderstood` for what is no frame."""
        if self._missing > len(data):
            self._parts.append(data)
            self._missing -= len(data)
            return
        if self._rest:
            data = b"".join((self._rest, *self._parts, data))
            self._parts, self._missing = [], 0
        view, at, end = memoryview(data), 0, len(data)
        decode, largest = self._decoder.decode, self._decoder.largest
        while end - at >= HEADER_BYTES:
            first = at + HEADER_BYTES
            size = size_after(view, at)
            if size > largest:
                raise NotUnderstood(f"a frame of {size} bytes is larger than any")
            if end - first < size:
                self._missing = size - (end - first)
                break
            yield decode(view[first : first + size])
            at = first + size
        self._rest = data[at:] if at else data

    @property
    def has_part(self) -> bool:
        """Whether a frame has arrived in part."""
        return bool(self._rest)


class Channel(Generic[F]):
    """Frames over a blocking socket, and the descriptors that came with them."""

    def __init__(self, sock: socket.socket, decoder: Decoder[F]) -> None:
        self.sock = sock
        self._splitter = Splitter(decoder)
        self._waiting: deque[F] = deque()
        self.descriptors: deque[int] = deque()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, frame: AnyFrame) -> None:
        self.sock.sendall(pack(frame))

    def receive(self) -> F:
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
