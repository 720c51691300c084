"""Checks what must always hold.

One step checks some jobs, with everything that is kept of them, so that a large store goes on
serving between two steps; one more step checks the store as a whole.
"""

from collections.abc import Iterator
from typing import Any

from limpet.storage.contract.answers import Broken
from limpet.storage.redis.link import RedisLink

RULES = {
    "state_is_known": "a job is in one of the states of the table",
    "place_in_line": "a job is in the collection of its state, at its place",
    "running_has_session": "a running job is held by a session that the store knows",
    "running_has_token": "a running job has been claimed: it has a token and the time of the claim",
    "request_is_listed": "a session lists exactly those of its running jobs that are to be "
    "cancelled",
    "final_is_finished": "a job has the time of its end if and only if it is in a final state",
    "token_never_falls": "no event carries a later token than its job, except the complaints about "
    "late holders",
    "counters_within_caps": "there are no more strikes than orphans, and no waiting job is over a "
    "cap",
    "lapse_is_earliest": "a waiting job lapses at the earlier of its expiry and its deadline, no "
    "other job does",
    "job_has_payload": "every job has its payload and is listed",
    "payload_is_json": "payloads, options and results are JSON",
    "nothing_left_over": "nothing is kept about a job or a session that is gone",
    "line_is_listed": "every line with ready jobs is listed, so that it is claimed from",
    "blocked_has_reason": "a job is blocked if and only if a reason is kept",
    "result_of_success": "only a job that succeeded has a result, and it has no error",
    "gauges_are_right": "the count of jobs by queue and state is the number of jobs",
    "session_is_listed": "every session is listed, and every one that is listed is there",
    "sequence_has_answer": "the last exchange of a session has its answer kept",
    "dead_has_end": "a session has the time and the cause of its end if and only if it is dead",
    "widowed_has_jobs": "a dead session waits for recovery if and only if it still has jobs",
    "tasks_are_known": "the count of living sessions that know a task is right",
    "ready_has_turn": "a job with a key is ready or running only with a turn of it, and but for a "
    "strict one in backoff no other has one",
    "turns_are_counted": "the count of turns of a key is the number of jobs that have one, and "
    "tells whether jobs wait",
    "pending_while_blocked": "a job waits for a number of children if and only if it is blocked "
    "by them",
    "child_is_listed": "a parent lists its children and no other job",
    "unique_is_held": "the job that holds a unique is there and has it",
    "flow_is_listed": "the parts of a flow are kept if and only if it is staged or to be written "
    "out",
    "relaunch_of_failed": "only a failed job waits for a relaunch",
    "schedule_ticks": "a schedule is listed by its next tick if and only if it is not paused",
    "permit_is_held": "a permit belongs to a job that runs under its session, or to a caller whose "
    "session is not dead, and is listed with its server",
    "holdings": "the digest of what a session holds is that of its running jobs",
}
_AT_ONCE = 500
_SMALL = 20_000
_BESIDE = ("job", "extra", "result", "result_secrets", "error", "progress", "pending", "unique")


def invariants(link: RedisLink) -> tuple[Broken, ...]:
    """Every rule that does not hold."""
    found: dict[str, tuple[int, str]] = {}
    for broken in _checks(link):
        for rule, count, example in broken:
            name = rule.decode()
            sum_, first = found.get(name, (0, example.decode()))
            found[name] = (sum_ + count, first)
    return tuple(
        Broken(name, sentence, *found[name]) for name, sentence in RULES.items() if name in found
    )


def _checks(link: RedisLink) -> Iterator[list[Any]]:
    cursor = "0"
    while True:
        _, next_cursor, broken = link.call("invariants_jobs", cursor, _AT_ONCE)
        yield broken
        cursor = next_cursor.decode()
        if cursor == "0":
            break
    yield link.call("invariants_store", _SMALL)[1]
    prefix = link.location.key.removesuffix("store")
    for hash_ in _BESIDE:
        for pairs in _scanned(link, "HSCAN", prefix + hash_):
            ids = [id_.decode() for id_ in pairs[::2]]
            yield link.call("invariants_keys", [(hash_, ids)], [])[1]
    for keys in _scanned(link, "SCAN", match=f"{prefix}*/*"):
        names = [key.decode().removeprefix(prefix) for key in keys]
        yield link.call("invariants_keys", [], names)[1]


def _scanned(link: RedisLink, *command: str, match: str = "") -> Iterator[list[bytes]]:
    """What a scan finds, without its empty answers."""
    cursor = b"0"
    while True:
        words: list[object] = [*command, cursor, "COUNT", _AT_ONCE]
        if match:
            words += ["MATCH", match]
        cursor, found = link.execute(*words)
        if found:
            yield found
        if cursor == b"0":
            return
