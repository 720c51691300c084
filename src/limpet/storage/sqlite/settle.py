"""running → the target of the attempt's outcome, while its lease holds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from limpet.domain.cause import Cause, Raised, Requested
from limpet.domain.errors import FlowIncomplete
from limpet.domain.job import Counters
from limpet.domain.lease import Digest, digest
from limpet.domain.state import Move, State
from limpet.domain.transition import (
    MOVE_OF,
    AwaitChildren,
    Complete,
    Fail,
    Rejected,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.records.texts import cause_in, from_json, has_hook, strict_json, to_json
from limpet.storage.sql.outcome import Decision, HeldRow, decide
from limpet.storage.sqlite.after import after
from limpet.storage.sqlite.fence import check
from limpet.storage.sqlite.flow import commit_staged, drop
from limpet.storage.sqlite.keys import become_ready, waiting_of
from limpet.storage.sqlite.limits import hold
from limpet.storage.sqlite.transaction import LARGE, Transaction, Value


def settle(
    tx: Transaction, session: str, settlements: Sequence[Settlement], *, alive: bool
) -> tuple[list[Rejected], Digest]:
    """Apply the settlements whose lease holds.

    The answer: those that were rejected, and the digest of what the session no longer holds.
    """
    rest = settlements
    completed = Digest()
    left = _Completed()
    if alive and (
        done := [settlement for settlement in settlements if isinstance(settlement, Complete)]
    ):
        tokens = {settlement.lease.job: settlement.lease.token for settlement in done}
        others = [settlement for settlement in settlements if not isinstance(settlement, Complete)]
        # Two settlements of one job, and late ones, are handled one by one below.
        if _one_word_each(tokens, done, others) and _complete_all(tx, session, done, tokens, left):
            completed = digest(tokens.items())
            rest = others
    leases = [settlement.lease for settlement in rest]
    tried = [MOVE_OF[type(settlement)] for settlement in rest]
    held, rejected = check(tx, session, leases, tried, alive=alive)
    for place, row in held.items():
        _apply(tx, row, rest[place])
    given_up = digest((row.lease.job, row.lease.token) for row in held.values())
    if completed.count or held:
        after(tx, [*left.numbers, *(row.n for row in held.values())], freed=left.keys)
    return rejected, completed + given_up


class _Completed:
    """Facts about jobs that were completed together.

    `numbers`: jobs for which others may wait. `keys`: those of which they had turns.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.keys: list[str] = []


def _one_word_each(
    tokens: Mapping[str, int], done: Sequence[Complete], others: Sequence[Settlement]
) -> bool:
    return len(tokens) == len(done) and not any(
        settlement.lease.job in tokens for settlement in others
    )


def _complete_all(
    tx: Transaction,
    session: str,
    done: Sequence[Complete],
    tokens: Mapping[str, int],
    left: _Completed,
) -> bool:
    """Running → succeeded in as many statements for a thousand as for one.

    False, with nothing written, if one of the leases does not hold.
    """
    if {settlement.lease.session for settlement in done} != {session}:
        return False
    queues = tx.run("settle", "completing", leases=to_json(tokens), session=session)
    if sum(row[1] for row in queues) != len(done):
        return False
    # Stores without keys and flows skip their statements.
    ((keyed, children),) = tx.run("settle", "tied")
    for queue, count, numbers, failed_before in queues:
        if keyed:
            left.keys += [key for (key,) in tx.run("settle", "turns", numbers=numbers)]
        if children:
            left.numbers += from_json(numbers, list[int])
        _succeed(tx, queue, count, numbers, failed_before, keyed=bool(left.keys))
    _keep_results(tx, done)
    return True


def _succeed(
    tx: Transaction, queue: str, count: int, numbers: str, failed_before: str, *, keyed: bool
) -> None:
    tx.run("settle", "complete_keyed" if keyed else "complete", numbers=numbers, now=tx.now)
    if failed_before != "[]":
        # An earlier failed attempt may have left an error.
        tx.run("settle", "forget_error", numbers=failed_before)
    tx.moved(queue, Move.COMPLETE, State.RUNNING, State.SUCCEEDED, count)


def _keep_results(tx: Transaction, done: Sequence[Complete]) -> None:
    counting = {settlement.lease.job: settlement.counts for settlement in done if settlement.counts}
    if counting:
        for id_, queue in tx.run("settle", "queues", ids=to_json(list(counting))):
            for name, count in counting[id_]:
                tx.counted(queue, name, count)
    # The result None leaves no row.
    results = [settlement for settlement in done if settlement.result != "null"]
    if not results:
        return
    small = {
        settlement.lease.job: settlement.result
        for settlement in results
        if len(settlement.result) <= LARGE and not settlement.secrets
    }
    if small:
        tx.run("settle", "results", values=strict_json(small))
    if len(small) < len(results):
        tx.many(
            "settle",
            "result",
            (
                (settlement.result, to_json(settlement.secrets), settlement.lease.job)
                for settlement in results
                if settlement.lease.job not in small
            ),
        )


def _apply(tx: Transaction, row: HeldRow, settlement: Settlement) -> None:
    if isinstance(settlement, Complete):
        failed_before = [] if row.counters == Counters() else [row.n]
        _succeed(tx, row.queue, 1, to_json([row.n]), to_json(failed_before), keyed=False)
        _keep_results(tx, [settlement])
        return
    if isinstance(settlement, AwaitChildren):
        _fan_out(tx, row, settlement)
        return
    carry_out(tx, row, decide(row, settlement, StoredFacts(tx)))
    if isinstance(settlement, Fail) and settlement.relaunch_at and not row.cancel_requested:
        tx.run("settle", "relaunch", n=row.n, at=settlement.relaunch_at)
    elif isinstance(settlement, SnoozeUntil) and settlement.holds:
        hold(tx, row.queue, settlement.at)


def _fan_out(tx: Transaction, row: HeldRow, settlement: AwaitChildren) -> None:
    decision = decide(row, settlement, StoredFacts(tx))
    if decision.is_final:
        drop(tx, settlement.flow)
    elif not commit_staged(tx, settlement.flow, settlement.chunks):
        # Refusing the whole exchange would refuse each of its repeats too, for ever.
        error = Raised("FlowIncomplete", str(FlowIncomplete(settlement.flow)))
        failed = decide(row, Fail(row.lease, error), StoredFacts(tx))
        decision = replace(failed, settled=Move.FAN_OUT)
    carry_out(tx, row, decision)
    if decision.target is State.BLOCKED:
        tx.run("settle", "fan_out", n=row.n, pending=settlement.children)
        if settlement.children == 0:
            jobs = tx.run("keys", "waiting", numbers=to_json([row.n]))
            become_ready(tx, [waiting_of(job) for job in jobs], Move.UNBLOCK)


class StoredFacts:
    """Facts about a held job, read from the store when they matter."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def has_orphan_hook(self, job: HeldRow) -> bool:
        row = self._tx.one("settle", "options", n=job.n)
        return row is not None and has_hook(job.lease.job, row[0])

    def request(self, job: HeldRow) -> Cause:
        row = self._tx.one("settle", "request", n=job.n)
        cause = cause_in("job", job.lease.job, row[0], "cancel_requested event") if row else None
        return cause or Requested()


def carry_out(tx: Transaction, row: HeldRow, decision: Decision) -> None:
    """Write what was decided about a held job."""
    values: tuple[Value, ...] = (
        decision.target,
        decision.holder,
        decision.sort_key,
        decision.ready_at,
        tx.now if decision.is_final else None,
        *decision.counters,
        int(decision.suspect),
        int(decision.last_run),
        decision.expires_at,
        decision.lapses_at,
        row.n,
    )
    tx.many("settle", "move", [values])
    tx.moved(row.queue, decision.move, State.RUNNING, decision.target)
    for entry in decision.entries:
        tx.record(
            row.n,
            entry.event,
            session=row.lease.session,
            token=row.lease.token,
            cause=entry.cause,
            claimed_at=row.claimed_at,
            settled=decision.settled,
        )
    if decision.error is not None:
        tx.many("settle", "error", [(row.n, to_json(decision.error.record()))])
