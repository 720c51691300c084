"""Jobs whose arguments do not fit their task: edits the arguments, and lets the jobs go on."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from limpet.domain.errors import (
    InvalidOption,
    JobNotFound,
    MoveRefused,
    PayloadInvalid,
    UnknownTask,
)
from limpet.domain.ids import checked_id
from limpet.domain.job import Job
from limpet.domain.state import State
from limpet.ops.bulk import BulkAnswer, OnProgress, Tally, Workable, ignore_progress
from limpet.ops.selection import Selection
from limpet.payload.json_text import from_text, to_text
from limpet.payload.signature import Packed, Signature
from limpet.payload.upgrades import Upgrades

# Stands where a secret was masked; in arguments that a person gives, it means the stored secret.
_MASK = "***"


class PackedCall(Protocol):
    """A call of a task whose arguments were checked."""

    @property
    def packed(self) -> Packed: ...


class Known(Protocol):
    """What is needed of a task to check arguments."""

    @property
    def signature(self) -> Signature: ...

    @property
    def version(self) -> int: ...

    @property
    def upgrades(self) -> Upgrades: ...

    def call(self, /, **arguments: Any) -> PackedCall: ...


class Tasks(Protocol):
    """Finds a task by its name; an app does."""

    def find(self, name: str, /) -> Known: ...


def edit_and_release(
    store: Workable, job: str, args: Mapping[str, Any] | None, tasks: Tasks
) -> State:
    """Check arguments against the task and let the quarantined job go on with them.

    `args` are JSON data for the present version of the task; None keeps the stored arguments. Stars
    where a secret was masked stand for that secret. Raises `PayloadInvalid` if the arguments do not
    fit, and then nothing has changed.
    """
    found = _quarantined(store, job)
    if args is None:
        return _release(store, found, tasks, found.args, found.payload_version)
    whole = _with_secrets(args, _stored(found) if found.secrets else {}, found.secrets)
    version = tasks.find(found.task).version
    return _release(store, found, tasks, to_text(whole, what=found.task), version)


def change_and_release(
    store: Workable,
    job: str,
    changes: Mapping[str, Any],
    without: Sequence[str],
    tasks: Tasks,
) -> State:
    """The same, with some of the stored arguments replaced and some removed."""
    found = _quarantined(store, job)
    kept = _with_secrets({**_stored(found), **changes}, _stored(found), found.secrets)
    for name in without:
        if name not in kept:
            raise InvalidOption(f"job {job} has no argument {name!r} to remove.")
        del kept[name]
    text = to_text(kept, what=found.task)
    return _release(store, found, tasks, text, found.payload_version)


def release_many(
    store: Workable,
    which: Selection,
    tasks: Tasks,
    *,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> BulkAnswer:
    """Let jobs go on whose stored arguments fit now; the others stay, with the reason."""
    tally = Tally(dry_run)
    for jobs in which.within(State.QUARANTINED).pages(store):
        for job in jobs:
            try:
                if dry_run:
                    _fitting(job, tasks, job.args, job.payload_version)
                else:
                    _release(store, job, tasks, job.args, job.payload_version)
                tally.done += 1
            except (PayloadInvalid, UnknownTask) as misfit:
                tally.refuse(job.id, str(misfit))
            except (MoveRefused, JobNotFound):
                tally.skipped["moved on meanwhile"] += 1
        on_progress(tally)
    return tally.answer()


def _quarantined(store: Workable, job: str) -> Job:
    found = store.job(checked_id(job))
    if found is None:
        raise JobNotFound(job)
    if found.state is not State.QUARANTINED:
        raise MoveRefused(f"job {job} is {found.state}; only a quarantined job can be repaired.")
    return found


def _release(store: Workable, job: Job, tasks: Tasks, text: str, version: int) -> State:
    fitting = _fitting(job, tasks, text, version)
    return store.repair(job.id, fitting.args, tasks.find(job.task).version, fitting.secrets)


def _fitting(job: Job, tasks: Tasks, text: str, version: int) -> Packed:
    """Arguments of that version, packed as if they were enqueued today."""
    task = tasks.find(job.task)
    if version > task.version:
        raise PayloadInvalid(
            f"{job.task}: the job was enqueued for version {version} of the task, and this app has "
            f"version {task.version}; use the newer code."
        )
    try:
        arguments = task.upgrades.unpack(task.signature, job.task, version, task.version, text)
    except PayloadInvalid:
        raise
    except Exception as error:
        # A model's own validator may raise anything, with any text: also a secret.
        raise PayloadInvalid(
            f"{job.task}: checking the arguments raised {type(error).__name__}."
        ) from error
    # Packed anew, so that fields which the code marks as secret by now are masked from now on.
    return task.call(**arguments).packed


def _stored(job: Job) -> dict[str, Any]:
    try:
        tree = from_text(job.args)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise PayloadInvalid(
            f"job {job.id}: its stored arguments are no JSON object; give all the arguments anew."
        )
    return tree


def _with_secrets(
    args: Mapping[str, Any], stored: dict[str, Any], secrets: Sequence[str]
) -> dict[str, Any]:
    whole: dict[str, Any] = dict(args)
    for path in secrets:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
        whole = _put_back(whole, stored, parts)
    return whole


def _put_back(new: Any, old: Any, parts: list[str]) -> Any:
    """`new`, with the value of `old` at that path if `new` has only the mask there."""
    if not parts:
        return old if new == _MASK else new
    name, rest = parts[0], parts[1:]
    if isinstance(new, dict) and isinstance(old, dict) and name in new and name in old:
        return {**new, name: _put_back(new[name], old[name], rest)}
    if isinstance(new, list) and isinstance(old, list) and name.isdecimal():
        at = int(name)
        if at < min(len(new), len(old)):
            return [*new[:at], _put_back(new[at], old[at], rest), *new[at + 1 :]]
    return new
