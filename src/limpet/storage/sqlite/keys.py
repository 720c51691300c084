"""Turns of keys: which jobs of a key may be ready or running; see `contract.shaping`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from limpet.domain.rate import Rate
from limpet.domain.rules import Rules
from limpet.domain.state import Move, State
from limpet.storage.contract.answers import KeyLimit
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import rate_in, rules_in, strict_json, to_json
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction

# The values of the column `turn`.
NONE, HAS, WAITS = 0, 1, 2


class TurnRequest(NamedTuple):
    """A job that requests a turn; the fields sort in the order of the line."""

    key: str
    sort_key: int
    n: int
    rules: Rules


class BecomingReady(NamedTuple):
    """A job that is to become ready, in the state that it still has."""

    n: int
    queue: str
    source: State
    key: str | None
    turn: int
    sort_key: int


def waiting_of(row: Row) -> BecomingReady:
    """A job from a row of the statement `waiting`."""
    return BecomingReady(row[0], row[1], State(row[2]), *row[3:])


class _Key:
    """A key, and the turns that this step gives of it."""

    def __init__(
        self, key: str, turns: int, most: int | None, rate: str | None, given_until: int | None
    ) -> None:
        self.key = key
        self._turns = turns
        self._most = most
        self._rate = rate_in(key, rate)
        self.given_until = self._was_given_until = given_until or 0
        self.next_at: int | None = None
        self.stopped = False

    def spare(self, rules: Rules) -> int:
        """How many turns are left under the limit of a job with these rules."""
        return (rules.key_limit if self._most is None else self._most) - self._turns

    def give(self, rules: Rules, now: int) -> bool:
        """Give the next job a turn, if there is one; otherwise stop the line."""
        rate = self._rate or rules.key_rate
        if self.stopped or self.spare(rules) < 1:
            self.stopped = True
        elif rate is not None and rate.allowed(self.given_until, now) < 1:
            self.stopped = True
            self.next_at = rate.next_at(self.given_until, now)
        else:
            self._turns += 1
            if rate is not None:
                self.given_until = rate.taken(self.given_until, now, 1)
        return not self.stopped

    def keep(self, tx: Transaction) -> None:
        """Write how far its rate is used and when it gives turns again, if that changed."""
        if self.next_at is not None or self.given_until != self._was_given_until:
            tx.run("keys", "keep", key=self.key, given_until=self.given_until, next_at=self.next_at)


def request_turns(tx: Transaction, requests: Iterable[TurnRequest]) -> tuple[set[int], set[str]]:
    """The numbers of jobs that get a turn at once, and the keys in which others wait already:
    there the requests join the line, and the caller must serve it.
    """
    inline = sorted(requests)
    if not inline:
        return set(), set()
    keys = strict_json(list(dict.fromkeys(request.key for request in inline)))
    found = {row[0]: row[1:] for row in tx.run("keys", "state", keys=keys)}
    given: set[int] = set()
    busy: set[str] = set()
    for name, line in groupby(inline, key=lambda request: request.key):
        waits, turns, most, rate, given_until = found[name]
        if waits:
            busy.add(name)
            continue
        key = _Key(name, turns, most, rate, given_until)
        given.update(request.n for request in line if key.give(request.rules, tx.now))
        key.keep(tx)
    return given, busy


def become_ready(tx: Transaction, jobs: Sequence[BecomingReady], move: Move) -> set[int]:
    """→ ready, or blocked if the key has no turn for the job; the answer is who is ready."""
    requesting = [job for job in jobs if job.key is not None and job.turn != HAS]
    ready = {job.n for job in jobs}
    if requesting:
        numbers = to_json([job.n for job in requesting])
        rules = {n: rules_in(n, text) for n, text in tx.run("keys", "rules", numbers=numbers)}
        given, busy = request_turns(
            tx,
            (TurnRequest(job.key or "", job.sort_key, job.n, rules[job.n])
             for job in requesting),
        )  # fmt: skip
        blocked = [job for job in requesting if job.n not in given]
        tx.run("keys", "given", numbers=to_json(sorted(given)))
        tx.run("keys", "wait", numbers=to_json([job.n for job in blocked]))
        for (queue, source), count in Counter((job.queue, job.source) for job in blocked).items():
            went = Move.BLOCK if source is State.BLOCKED else move
            tx.moved(queue, went, source, State.BLOCKED, count)
        ready -= {job.n for job in blocked}
    direct = [job for job in jobs if job.n in ready]
    tx.many("keys", "ready", ((job.n,) for job in direct if job.key is None or job.turn == HAS))
    for (queue, source), count in Counter((job.queue, job.source) for job in direct).items():
        tx.moved(queue, move, source, State.READY, count)
    if requesting and busy:
        ready |= serve(tx, busy)
    return ready


def serve(tx: Transaction, keys: Iterable[str]) -> set[int]:
    """Blocked → ready for the first jobs in line of keys that have turns to give, at most 1,000."""
    given: dict[int, str] = {}
    for row in tx.run("keys", "heads", keys=to_json(sorted(keys))):
        if _is_plain(row) and len(given) < CHUNK:
            given[row[5]] = row[6]
            continue
        key = _Key(*row[:5])
        _serve_one(tx, key, row, given)
        key.keep(tx)
    if given:
        tx.run("keys", "given", numbers=to_json(list(given)))
        for queue, count in Counter(given.values()).items():
            tx.moved(queue, Move.UNBLOCK, State.BLOCKED, State.READY, count)
    return set(given)


def _is_plain(row: Row) -> bool:
    """Whether the key has no turn out, no settings, and jobs with default rules: the usual case."""
    _, turns, most, rate, _, _, _, first, second = row
    return turns == 0 and most is rate is first is None and second in (None, "{}")


def _serve_one(tx: Transaction, key: _Key, row: Row, given: dict[int, str]) -> None:
    n, queue, text, second = row[5:]
    if len(given) >= CHUNK:
        _leave_to_promote(tx, key)
        return
    if not key.give(rules_in(n, text), tx.now):
        return
    given[n] = queue
    passed = 1
    following = rules_in(n, second)
    # Usually the limit is one, and there is nothing more to give.
    while second is not None and not key.stopped and key.spare(following) > 0:
        budget = CHUNK - len(given)
        if budget == 0:
            _leave_to_promote(tx, key)
            return
        most = min(budget, key.spare(following))
        line = tx.run("keys", "line", key=key.key, limit=most + 1, passed=passed)
        for number, its_queue, its_rules in line[:most]:
            if not key.give(rules_in(number, its_rules), tx.now):
                return
            given[number] = its_queue
            passed += 1
        if len(line) <= most:
            return
        following = rules_in(line[most][0], line[most][2])


def _leave_to_promote(tx: Transaction, key: _Key) -> None:
    key.next_at = tx.now
    tx.unfinished = True


def serve_due(tx: Transaction) -> tuple[int, bool]:
    """Blocked → ready where a rate lets keys give turns again: how many, and if more are due."""
    keys = [key for (key,) in tx.run("keys", "due", now=tx.now, limit=CHUNK)]
    if not keys:
        return 0, False
    tx.run("keys", "not_due", keys=to_json(keys))
    served = len(serve(tx, keys))
    return served, bool(tx.run("keys", "due", now=tx.now, limit=1))


def limit_key(tx: Transaction, key: str, limit: int | None, rate: Rate | None) -> None:
    """Set the limits of a key; see `LimitVerbs.limit_key`."""
    must_take_writes(tx)
    tx.run("keys", "limit", key=key, most=limit, rate=to_json(rate) if rate else None)
    tx.run("keys", "not_due", keys=to_json([key]))
    serve(tx, [key])


def key_limit(tx: Transaction, key: str) -> KeyLimit:
    """The limits that were set for a key; see `LimitVerbs.key_limit`."""
    most, rate = tx.one("keys", "limit_of", key=key) or (None, None)
    return KeyLimit(most, rate_in(key, rate))
