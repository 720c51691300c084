"""What an honest executor says fits into its frames, whatever the texts are made of."""

from typing import Any, cast

import pytest

from limpet.domain.cause import Raised
from limpet.domain.ending import Ending
from limpet.domain.job import LONGEST_LINE, LONGEST_NOTE, ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.raised import LONGEST_MESSAGE, LONGEST_TRACEBACK, raised, sendable
from limpet.domain.transition import Complete, Fail, Quarantine, RetryAt
from limpet.payload.context import Context, JobView
from limpet.worker.executor.attempt import Attempt
from limpet.worker.executor.executor import unfit_frame
from limpet.worker.wire import frames
from limpet.worker.wire.bounds import LONGEST_PLACE, LONGEST_REASON, LONGEST_WORD, fit
from limpet.worker.wire.endings import frame_of

LEASE = Lease("0" * 26, "0" * 26, 1)
CHARACTERS = ["x", "\ud800", "x\udfff", "\U0010ffff", "\0"]
DECODER = frames.from_executor(1_000_000)


def claimed(task: str = "task") -> ClaimedJob:
    rest: tuple[Any, ...] = (False, False, 1, "{}", "{}", (), None)
    return ClaimedJob(LEASE, task, "default", 1, 1, Counters(), *rest)


def received(frame: frames.FromExecutor) -> frames.FromExecutor:
    """As the supervisor decodes it."""
    return DECODER.decode(frames.pack(frame)[frames.HEADER_BYTES :])


def texts(longest: int) -> list[str]:
    sizes = (longest - 1, longest, longest + 1, longest + 64, longest + 65, 10 * longest)
    return [(character * size)[:size] for character in CHARACTERS for size in sizes]


def reports_of(say: Any) -> list[frames.ReportFrame]:
    """What an attempt reports while it runs `say` with its context and itself."""
    said: list[frames.ReportFrame] = []
    attempt = Attempt(claimed(), cast("Any", None), None, said.append, cast("Any", None))
    view = JobView(LEASE.job, "task", "default", 1, 0, 0, 0)
    say(Context(view, 1, LEASE.token, attempt), attempt)
    return [cast("frames.ReportFrame", received(frame)) for frame in said]


def test_a_note_fits_whatever_its_characters_are() -> None:
    def say(ctx: Context, attempt: Attempt) -> None:
        for text in texts(LONGEST_NOTE):
            ctx.progress(1, 2, text)
            attempt.progress(1, 2, text)

    reports = reports_of(say)
    assert len(reports) == 2 * len(texts(LONGEST_NOTE))
    assert all(report.progress is not None and report.progress[2] for report in reports)


def test_a_line_of_a_log_fits_whatever_its_characters_are() -> None:
    def say(ctx: Context, attempt: Attempt) -> None:
        for text in texts(LONGEST_LINE):
            attempt.line(text, text)
            attempt.line("info", sendable(text, LONGEST_LINE))  # as a log handler writes it

    assert len(reports_of(say)) == 2 * len(texts(LONGEST_LINE))


@pytest.mark.parametrize("longest", [LONGEST_MESSAGE, LONGEST_TRACEBACK])
def test_how_an_attempt_ended_fits_whatever_its_characters_are(longest: int) -> None:
    for text in texts(longest):
        error = raised(ValueError(text))
        for cause in (error, Raised(text, text, text)):
            for settlement in (
                Fail(LEASE, cause), RetryAt(LEASE, 1, cause), Quarantine(LEASE, cause),
            ):  # fmt: skip
                received(frame_of(Ending(settlement), None, text))
        received(frame_of(Complete(LEASE), None, text))


def test_why_an_executor_is_to_be_replaced_fits_whatever_its_characters_are() -> None:
    for text in (*texts(LONGEST_REASON), *texts(LONGEST_PLACE), *texts(LONGEST_WORD)):
        received(unfit_frame(claimed(text), text))
        received(frames.ReadyFrame(fit(text, LONGEST_REASON)))
