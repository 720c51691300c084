"""Limpet's log: this file holds all its wording.

The library logs through `logging` under the name "limpet" and configures nothing. Each record
carries an `action`, and `job`, `task`, `queue` and `session` if it has them.
"""

import logging
from typing import Any

from limpet.domain.plural import number_of
from limpet.domain.printable import printable

logger = logging.getLogger("limpet")

FACTS = ("job", "task", "queue", "session")

# The nouns that follow the numbers of these facts.
_NOUNS = {
    "tasks": "task", "lanes": "lane", "async_jobs": "async job", "jobs": "job", "times": "time",
    "orphans": "orphaned job", "unknown": "job", "running": "job",
}  # fmt: skip

_D, _I, _W, _E = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

WORDING: dict[str, tuple[int, str]] = {
    # The worker
    "worker_ready": (
        _I,
        "worker {name} is ready: {tasks}, {queues}, {lanes}, {async_jobs}, lease {lease:g} s",
    ),
    "store_opened": (_I, "store {url}: {durability}"),
    "long_lease": (
        _W,
        "the lease is {lease:g} s: after a restart or a failover of the store's server no worker "
        "starts a job for that long, and if this host vanishes its jobs run again only after it",
    ),
    "containment": (_I, "jobs are contained by {how}"),
    "weaker_here": (_W, "on this system: {what}"),
    "started_by_spawn": (
        _W,
        "the app starts threads when it is imported ({threads} of them), so executors are spawned "
        "instead of forked: each start imports it again",
    ),
    "few_files": (
        _W,
        "this worker has {lanes} instead of {wanted}, because it may not open more than {files} "
        "files; raise its limit (ulimit -Hn) to have them all",
    ),
    "worker_draining": (
        _I,
        "stop requested: {running} may go on for {seconds:g} s; a second signal ends them now",
    ),
    "worker_stopped": (_I, "stopped; {released} handed back"),
    "refused": (_E, "{reason}"),
    "guardian_gone": (_E, "the guardian is gone; the worker ends all its processes"),
    "session_over": (_W, "the session is over: {reason}; a new one begins"),
    "part_lacks": (_E, "a part of the worker cannot go on: {error}"),
    "reloading": (_I, "{what} has changed; starting anew"),
    "zygote_died": (_E, "the zygote ended ({how}); its jobs are taken back"),
    "zygote_stays": (
        _W,
        "the zygote did not continue in its own pid namespace within {seconds:g} s; a new session "
        "begins",
    ),
    # Recovery
    "recovered": (_W, "recovered {orphans} of {whose}: {cause}"),
    "notice_failed": (_E, "the death of session {session} could not be reported: {error}"),
    "maintenance_failed": (_W, "{service} failed and will try again: {error}"),
    # The gate
    "gate_measures": (_D, "this worker measures {server} for the gate"),
    "left_behind": (
        _W,
        "jobs are left that {server} cannot carry even with nothing else on it, of {tasks}; start "
        "a worker on a larger host, or see `limpet job why`",
    ),
    "gate_unsure": (_W, "the gate cannot see everything: {what}"),
    # Schedules
    "tick_passed": (
        _I,
        "schedule {schedule}: a tick was passed over, because job {job} is not finished",
    ),
    "ticks_skipped": (_I, "schedule {schedule}: ticks were missed and are skipped"),
    "schedule_unreadable": (
        _W,
        "schedule {schedule} cannot be fired here ({error}); put it again, or repair this machine",
    ),
    "schedule_vanished": (_I, "schedule {schedule} is no longer in the code and is removed"),
    "mended": (_W, "the store broke the rule {rule}; repaired {times}"),
    "unmended": (
        _E,
        "the store breaks the rule {rule} {times}, for example {example}; see `limpet fsck`",
    ),
    # The store
    "store_failed": (
        _W,
        "the store does not answer ({error}); trying again for {seconds:.1f} s",
    ),
    "store_awaited": (_W, "waiting for the store: {error}"),
    "line_slow": (
        _W,
        "the store is too slow, or too far away, for a lease of {lease:g} s: renewals take "
        "{seconds:.1f} s, and a little more would end all running jobs; set --lease to {enough} s "
        "or more",
    ),
    "store_moved": (
        _W,
        "another server answers for the store, perhaps with older data; nothing is claimed for one "
        "lease, so that workers can stop jobs that this server has forgotten",
    ),
    "store_back": (_I, "the store answers again after {seconds:.1f} s"),
    "store_half_open": (
        _W,
        "users who may only read {path} can block all its writers by locking its files; close it "
        "to them: {command}",
    ),
    "clock_stepped": (
        _W,
        "the store's clock was set, or another server answers; no session is ended before one "
        "lease of its own has passed",
    ),
    "lease_stepped": (_W, "the store's clock was set; the lease is renewed by its new time"),
    "permit_unsaid": (
        _W,
        "permit {name} could not be given back ({error}); it is free when its lease is over",
    ),
    "heartbeat_late": (_W, "a renewal was {seconds:.2f} s late"),
    "digest_mismatch": (
        _W,
        "the store lists {unknown} for this worker that the worker does not hold; handed back. It "
        "does not list {missing} of the worker's own",
    ),
    "row_unreadable": (
        _W,
        "{kind} {row}: its {field} cannot be read ({error}) and is passed over; write it anew, or "
        "remove it",
    ),
    # Executors
    "executor_started": (_D, "{kind} executor {executor} started"),
    "executor_died": (_W, "{kind} executor {executor} ended: {cause}; it ran {jobs}"),
    "executor_signalled": (
        _W,
        "{kind} executor {executor} was ended by a signal that may have come from another job: the "
        "jobs that it ran run alone next, and get no strike",
    ),
    "executor_failed": (_E, "an executor could not start ({error}); trying again in {seconds:g} s"),
    "executor_garbled": (
        _E,
        "{kind} executor {executor} can no longer be trusted ({error}) and is ended",
    ),
    "executor_recycled": (_D, "{kind} executor {executor} is replaced after {jobs}"),
    "executor_changed": (
        _W,
        "{kind} executor {executor} is replaced: {task} changed {what}, which cannot be put back",
    ),
    "executor_doomed": (
        _W,
        "{kind} executor {executor} will be ended: {what} of {task} outlived its attempt",
    ),
    "loop_blocked": (_W, "the event loop has not answered for {seconds:.1f} s: {blame}"),
    # Jobs
    "job_failed": (_W, "{task} failed and will not be tried again: {cause}"),
    "job_failed_for_now": (_W, "{task} failed, and is relaunched in {delay}: {cause}"),
    "job_retried": (_I, "{task} failed, next attempt in {delay}: {cause}"),
    "job_quarantined": (_W, "{task} was put aside, its stored payload does not fit: {cause}"),
    "job_lost": (_W, "{task} was lost with its executor: {cause}"),
    "job_stopping": (_I, "{task} is being stopped: {cause}"),
    "job_killed": (_W, "{task} did not stop in {seconds:g} s; its executor is ended"),
    "job_cancelled": (_I, "{task} was cancelled"),
    "queue_held": (_W, "queue {queue} is held for {delay}, because {task} reported a rate limit"),
    "job_refused": (_W, "a settlement was refused: the lease of its job was over"),
}


def emit(action: str, /, **facts: Any) -> None:
    """Log one action in its words, as one line; text that a job wrote is escaped."""
    level, words = WORDING[action]
    if logger.isEnabledFor(level):
        extra = {"action": action, **{name: facts.get(name) for name in FACTS}}
        counted = {
            name: number_of(fact, _NOUNS[name])
            for name, fact in facts.items()
            if name in _NOUNS and isinstance(fact, int)
        }
        logger.log(level, printable(words.format(**{**facts, **counted})), extra=extra)
