"""Turns of keys: who of a key may be ready or running; see `storage.shaping`."""

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

# What the column `turn` says.
NONE, HAS, WAITS = 0, 1, 2


class TurnRequest(NamedTuple):
    """A job that asks for a turn; the order is that of the line."""

    key: str
    sort_key: int
    n: int
    rules: Rules


class BecomingReady(NamedTuple):
    """A job that is to become ready, as the store has it."""

    n: int
    queue: str
    source: State
    key: str | None
    turn: int
    sort_key: int


def waiting_of(row: Row) -> BecomingReady:
    """A row of the statement `waiting`."""
    return BecomingReady(row[0], row[1], State(row[2]), *row[3:])


class _Key:
    """A key, and what this step gives of it."""

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
        """How many turns the limit of that job leaves."""
        return (rules.key_limit if self._most is None else self._most) - self._turns

    def give(self, rules: Rules, now: int) -> bool:
        """Take a turn for who comes next; the first that may have none stops the line."""
        rate = self._rate or rules.key_rate
        if self.stopped or self.spare(rules) < 1:
            self.stopped = True
        elif rate is not None and rate.room(self.given_until, now) < 1:
            self.stopped = True
            self.next_at = rate.next_at(self.given_until, now)
        else:
            self._turns += 1
            if rate is not None:
                self.given_until = rate.taken(self.given_until, now, 1)
        return not self.stopped

    def keep(self, tx: Transaction) -> None:
        """Write what time has to do with it, if it has."""
        if self.next_at is not None or self.given_until != self._was_given_until:
            tx.run("keys", "keep", key=self.key, given_until=self.given_until, next_at=self.next_at)


def ask(tx: Transaction, askers: Iterable[TurnRequest]) -> tuple[set[int], set[str]]:
    """Who gets a turn at once, by number; and the keys in which others wait already, so that the
    askers join their line and the line is to be served.
    """
    inline = sorted(askers)
    if not inline:
        return set(), set()
    keys = strict_json(list(dict.fromkeys(each.key for each in inline)))
    found = {row[0]: row[1:] for row in tx.run("keys", "state", keys=keys)}
    given: set[int] = set()
    busy: set[str] = set()
    for name, line in groupby(inline, key=lambda each: each.key):
        waits, turns, most, rate, given_until = found[name]
        if waits:
            busy.add(name)
            continue
        key = _Key(name, turns, most, rate, given_until)
        given.update(each.n for each in line if key.give(each.rules, tx.now))
        key.keep(tx)
    return given, busy


def become_ready(tx: Transaction, jobs: Sequence[BecomingReady], move: Move) -> set[int]:
    """→ ready, or blocked where its key has no turn for it; the answer is who is ready."""
    asking = [each for each in jobs if each.key is not None and each.turn != HAS]
    ready = {each.n for each in jobs}
    if asking:
        numbers = to_json([each.n for each in asking])
        rules = {n: rules_in(n, text) for n, text in tx.run("keys", "rules", numbers=numbers)}
        given, busy = ask(
            tx,
            (TurnRequest(each.key or "", each.sort_key, each.n, rules[each.n])
             for each in asking),
        )  # fmt: skip
        blocked = [each for each in asking if each.n not in given]
        tx.run("keys", "given", numbers=to_json(sorted(given)))
        tx.run("keys", "wait", numbers=to_json([each.n for each in blocked]))
        for (queue, source), count in Counter(
            (each.queue, each.source) for each in blocked
        ).items():
            went = Move.BLOCK if source is State.BLOCKED else move
            tx.moved(queue, went, source, State.BLOCKED, count)
        ready -= {each.n for each in blocked}
    direct = [each for each in jobs if each.n in ready]
    tx.many("keys", "ready", ((each.n,) for each in direct if each.key is None or each.turn == HAS))
    for (queue, source), count in Counter((each.queue, each.source) for each in direct).items():
        tx.moved(queue, move, source, State.READY, count)
    if asking and busy:
        ready |= serve(tx, busy)
    return ready


def serve(tx: Transaction, keys: Iterable[str]) -> set[int]:
    """Blocked → ready for those who come first in keys that have turns to give, at most 1,000."""
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
    """Whether nobody has a turn of the key, and one may: mostly so, and soon told."""
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
    # Mostly the limit is one, and the first in line was all.
    while second is not None and not key.stopped and key.spare(following) > 0:
        room = CHUNK - len(given)
        if room == 0:
            _leave_to_promote(tx, key)
            return
        most = min(room, key.spare(following))
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
    """Blocked → ready where a rate lets keys give turns again; how many, and if more are due."""
    keys = [key for (key,) in tx.run("keys", "due", now=tx.now, limit=CHUNK)]
    if not keys:
        return 0, False
    tx.run("keys", "not_due", keys=to_json(keys))
    served = len(serve(tx, keys))
    return served, bool(tx.run("keys", "due", now=tx.now, limit=1))


def limit_key(tx: Transaction, key: str, limit: int | None, rate: Rate | None) -> None:
    """Say how much of a key may be under way; see `LimitVerbs.limit_key`."""
    must_take_writes(tx)
    tx.run("keys", "limit", key=key, most=limit, rate=to_json(rate) if rate else None)
    tx.run("keys", "not_due", keys=to_json([key]))
    serve(tx, [key])


def key_limit(tx: Transaction, key: str) -> KeyLimit:
    """What was set for a key; see `LimitVerbs.key_limit`."""
    most, rate = tx.one("keys", "limit_of", key=key) or (None, None)
    return KeyLimit(most, rate_in(key, rate))
