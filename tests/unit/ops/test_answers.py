"""What `limpet.ops` answers: structs whose JSON keys are those that users' scripts read."""

import importlib
import inspect
import pkgutil
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import limpet.ops
from limpet.domain.cause import Cause
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.ops.breakers import BreakerAnswer
from limpet.ops.bulk import BulkAnswer
from limpet.ops.cause_answer import CauseAnswer, cause_answer
from limpet.ops.host_answer import (
    ExecutorAnswer,
    GateStatus,
    MeasuredHost,
    MemoryAnswer,
    PermitAnswer,
    PressureAnswer,
    RoomAnswer,
    SampleAnswer,
    ThresholdAnswer,
    UnmeasuredHost,
)
from limpet.ops.inspect import JobPage, QueueAnswer, SessionAnswer
from limpet.ops.job_answer import EventAnswer, JobAnswer, JobDetail, ProgressAnswer, RulesAnswer
from limpet.ops.move import MoveAborted, Moved
from limpet.ops.overview import JobEventAnswer, LiveWorker, Overview, QueueTotals, RunningJob
from limpet.ops.queues import KeyLimits
from limpet.ops.record import plain
from limpet.ops.schedules import ScheduleDetail

JOB = (
    "id task queue state blocked_by priority round token failures orphans strikes suspect session "
    "key unique parent root pending relaunch_at rules payload_version args options created_at "
    "ready_at claimed_at finished_at expires_at deadline_at cancel_requested_at progress result "
    "error unreadable"
)
STATES = "scheduled ready blocked running quarantined succeeded failed cancelled"
MEASURED = (
    "ready reason warning cores cpu_raw cpu_ema cpu_effective cpu_others throttled memory pressure "
    "load disk_free threshold room left source permits reserved_for at"
)
KEYS: dict[type[msgspec.Struct], str] = {
    JobAnswer: JOB,
    JobDetail: f"{JOB} why children timeline log",
    JobPage: "jobs cursor",
    EventAnswer: "at event session token cause",
    ProgressAnswer: "done total note at",
    QueueAnswer: (
        f"queue paused draining held_until rules adjusted next_at why blocked_by {STATES} "
        f"head_ready_at"
    ),
    SessionAnswer: (
        "session name host pid state overdue holds lease_seconds registered_at renewed_at ended_at "
        "cause unreadable"
    ),
    ScheduleDetail: (
        "schedule task queue args every cron tz jitter catch_up overlap paused declared next_at "
        "last_at last_job fired passed next_runs"
    ),
    BreakerAnswer: (
        "breaker state tasks succeeded failed failure_rate least window_seconds "
        "probe_after_seconds opened_at probe_at"
    ),
    Overview: "at store workers queues running running_total events",
    LiveWorker: ("session name host pid state holds heard_seconds_ago lease_seconds registered_at"),
    QueueTotals: (
        f"queue paused draining why {STATES} blocked_by head_ready_at finished retried orphaned "
        f"recovered counts"
    ),
    RunningJob: ("id task queue session worker attempt begun seconds cancel_requested progress"),
    JobEventAnswer: "at event job task queue cause",
    BulkAnswer: "dry_run matched done asked skipped refused refusals",
    Moved: "source target move jobs already seconds",
    MoveAborted: "source aborted",
    KeyLimits: "key concurrency rate",
    GateStatus: f"server {MEASURED}",
    MeasuredHost: f"server {MEASURED} monitor session age_seconds executors history",
    UnmeasuredHost: (
        "server monitor age_seconds ready reason executors permits reserved_for history"
    ),
    MemoryAnswer: "total free used_percent",
    PressureAnswer: "cpu memory io",
    ThresholdAnswer: "cpu memory pressure io",
    RoomAnswer: "cpu memory",
    PermitAnswer: "holder session what cpu memory heavy at",
    ExecutorAnswer: "session pid cpu memory name",
    SampleAnswer: "at cpu memory pressure",
}


def answers() -> list[type[msgspec.Struct]]:
    """Every struct that is defined in `limpet.ops`."""
    found = []
    for module in pkgutil.iter_modules(limpet.ops.__path__, "limpet.ops."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, msgspec.Struct) and kind.__module__ == module.name:
                found.append(kind)
    return found


@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.__name__)
def test_keys_of_an_answer_are_those_that_scripts_read(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_encode_fields__ == tuple(KEYS[kind].split())


def test_every_answer_is_frozen_and_can_be_described_to_a_client() -> None:
    kinds = answers()
    assert len(kinds) > len(KEYS)
    assert all(kind.__struct_config__.frozen and kind.__doc__ for kind in kinds)
    _, described = msgspec.json.schema_components(kinds)
    assert {kind.__name__ for kind in kinds} <= described.keys()


def value_of(hint: Any) -> Any:
    """A value of that type, None where it may be none."""
    if type(None) in get_args(hint):
        return None
    return {int: 3, float: 1.5, str: "x"}[hint]


@pytest.mark.parametrize("kind", Cause.__subclasses__(), ids=lambda kind: kind.__name__)
def test_an_answer_tells_every_fact_of_a_cause(kind: type[Cause]) -> None:
    hints = get_type_hints(kind.__init__)
    cause = kind(**{name: value_of(hint) for name, hint in hints.items() if name != "return"})
    answer = cause_answer(cause)
    assert isinstance(answer, CauseAnswer)
    assert list(plain(answer).items()) == list(cause.record().items())


def test_every_rule_and_every_state_has_its_key() -> None:
    assert RulesAnswer.__struct_fields__ == Rules._fields
    for kind in (QueueAnswer, QueueTotals):
        assert {state.value for state in State} <= set(kind.__struct_encode_fields__)
