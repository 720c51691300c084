"""Well-formed frames with nonsense in them, as a job may write on its executor's own socket."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from limpet.domain.lease import Lease
from limpet.worker.wire.frames import header

Forgery = Callable[[Lease], list[Any]]

READY, DONE, COMPLETE, RECALLED, PONG, REPORT, BLOCKED, UNFIT = 11, 12, 13, 14, 15, 16, 17, 18
RETRY, FAIL, SNOOZE, QUARANTINE, CANCEL, RELEASE, FAN_OUT, LAST_RUN = 41, 42, 43, 44, 45, 46, 47, 48
NOW = 1_790_000_000_000_000
ERROR = ["ValueError", "no", ""]


def stranger(own: Lease) -> Lease:
    return Lease("0" * 26, own.session, own.token)


# On the work socket. Those of kind 13 with a word in second place are of versions before.
WORK: dict[str, Forgery] = {
    "a kind alone": lambda own: [REPORT],
    "a kind of nobody": lambda own: [99, 1],
    "a kind that is a list": lambda own: [[DONE], []],
    "a kind of the supervisor": lambda own: [1, [], {}],
    "ready twice": lambda own: [READY],
    "ready with a number": lambda own: [READY, 5],
    "recalled by nobody": lambda own: [RECALLED],
    "pong to no ping": lambda own: [PONG, 5],
    "pong to a text": lambda own: [PONG, "x"],
    "blocked on the wrong way": lambda own: [BLOCKED, own.job, "here"],
    "unfit by one never given": lambda own: [UNFIT, stranger(own).job, "task", "its umask"],
    "unfit by a number": lambda own: [UNFIT, 7, "task", "its umask"],
    "unfit with megabytes": lambda own: [UNFIT, own.job, "task", "x" * 10**6],
    "done of one never given": lambda own: [DONE, [[stranger(own)]]],
    "done of an id that is a list": lambda own: [DONE, [[[["x"], own.session, own.token]]]],
    "done of another session": lambda own: [DONE, [[Lease(own.job, "other", own.token)]]],
    "done of a later token": lambda own: [DONE, [[own._replace(token=own.token + 1)]]],
    "done with a result that is none": lambda own: [DONE, [[own, "[1,"]]],
    "done with a zero in the result": lambda own: [DONE, [[own, '"\0"']]],
    "done with a count beyond all": lambda own: [DONE, [[own, "1", [], [["a", 2**64 - 1]]]]],
    "done with a thousand counts": lambda own: [DONE, [[own, "1", [], [["a", 1]] * 1000]]],
    "done with a count of no name": lambda own: [DONE, [[own, "1", [], [["\0", 1]]]]],
    "report of one never given": lambda own: [REPORT, stranger(own), None, []],
    "report of an id that is a list": lambda own: [REPORT, [["x"], own.session, 1], None, []],
    "progress of nan": lambda own: [REPORT, own, [math.nan, None, ""], []],
    "progress of inf": lambda own: [REPORT, own, [math.inf, 1, ""], []],
    "progress below zero": lambda own: [REPORT, own, [-1, 1, ""], []],
    "progress of two": lambda own: [REPORT, own, [1, 2], []],
    "progress with a long note": lambda own: [REPORT, own, [1, 2, "x" * 9_999], []],
    "a line of a text": lambda own: [REPORT, own, None, ["line"]],
    "a line at inf": lambda own: [REPORT, own, None, [[math.inf, "info", "x"]]],
    "a line of megabytes": lambda own: [REPORT, own, None, [[1, "info", "x" * 200_000]]],
    "thousands of lines": lambda own: [REPORT, own, None, [[1, "info", "x"]] * 5_000],
    "an outcome of before": lambda own: [COMPLETE, [own, "retry", math.inf]],
    "an outcome of before, nan": lambda own: [COMPLETE, [own, "snooze", math.nan]],
    "an outcome of before, 1e15": lambda own: [COMPLETE, [own, "retry", 1e15, {"kind": "Raised"}]],
    "an outcome with a cause of numbers": lambda own: [COMPLETE, [own, "fail", 0.0, {"x": 1}]],
    "an outcome of a cause that lacks all": lambda own: [
        COMPLETE, [own, "fail", 0.0, {"kind": "TimedOut", "seconds": "x"}],
    ],
    "retry at inf": lambda own: [RETRY, own, math.inf, 0, ERROR],
    "retry in a thousand years": lambda own: [RETRY, own, NOW * 20, 0, ERROR],
    "retry after a delay of 1e15 s": lambda own: [RETRY, own, NOW, 10**18, ERROR],
    "retry below zero": lambda own: [RETRY, own, -1, 0, ERROR],
    "retry with no error": lambda own: [RETRY, own, NOW, 0, None],
    "retry with an error of numbers": lambda own: [RETRY, own, NOW, 0, [1, 2, 3]],
    "fail with a traceback of megabytes": lambda own: [FAIL, own, ["a", "b", "x" * 10**6]],
    "fail with a relaunch at nan": lambda own: [FAIL, own, ERROR, math.nan],
    "fail nested": lambda own: [FAIL, own, [[[[[[[["x"]]]]]]]]],
    "snooze in a thousand years": lambda own: [SNOOZE, own, NOW * 20, 0, False],
    "snooze that holds a number": lambda own: [SNOOZE, own, NOW, 0, 7],
    "quarantine with no error": lambda own: [QUARANTINE, own, None],
    "cancel of its own accord": lambda own: [CANCEL, own],
    "release of its own accord": lambda own: [RELEASE, own],
    "fan out into minus one": lambda own: [FAN_OUT, own, "0" * 26, -1, -1],
    "fan out of no flow": lambda own: [FAN_OUT, own, "x' --", 1, 1],
    "a last word of one that has more": lambda own: [LAST_RUN, own],
    "an orphan of its own saying": lambda own: [COMPLETE, [own, "orphan"]],
}  # fmt: skip

# On the pipe for notes.
NOTES: dict[str, Forgery] = {
    "done on the pipe for notes": lambda own: [DONE, [[own]]],
    "blocked at a number": lambda own: [BLOCKED, own.job, 5],
    "blocked by a list": lambda own: [BLOCKED, ["x"], "here"],
}


def frame(body: Any) -> bytes:
    """A frame as it travels, whatever is in it."""
    encoded = msgspec.msgpack.encode(body)
    return header(len(encoded)) + encoded
