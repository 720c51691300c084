"""Checks the invariants; each rule is a statement of sql/invariants.sql."""

from itertools import groupby

from limpet.domain.lease import Digest, digest
from limpet.storage.assets import script
from limpet.storage.contract.answers import Broken
from limpet.storage.sqlite.transaction import PACKAGE, Transaction

HOLDINGS = "holdings"
_HOLDINGS_SENTENCE = "the digest of what a session holds is that of its running jobs"


def names() -> list[str]:
    """The rules, in the order in which they are checked."""
    return list(script(PACKAGE, "sql", "invariants").statements)


def invariants(tx: Transaction) -> tuple[Broken, ...]:
    """The rules that do not hold."""
    broken = []
    for name, statement in script(PACKAGE, "sql", "invariants").statements.items():
        if name == HOLDINGS:
            wrong = _holdings(tx)
            sentence = _HOLDINGS_SENTENCE
        else:
            wrong = [str(row[0]) for row in tx.run("invariants", name) if row[0] != "ok"]
            sentence = statement.partition("\n")[0].removeprefix("-- ")
        if wrong:
            broken.append(Broken(name, sentence, len(wrong), wrong[0]))
    return tuple(broken)


def damaged(reason: str) -> Broken:
    """The finding for a file that is too damaged to run the rules."""
    return Broken("file_is_sound", "the database file itself is sound", 1, reason)


def _holdings(tx: Transaction) -> list[str]:
    return [
        f"session {session}: {kept.count} kept, {real.count} there"
        for session, kept, real in wrong_holdings(tx)
    ]


def wrong_holdings(tx: Transaction) -> list[tuple[str, Digest, Digest]]:
    """The sessions whose digest is not that of their jobs: the kept digest, and the right one."""
    wrong = []
    for session, rows in groupby(tx.run("invariants", HOLDINGS), key=lambda row: row[0]):
        listed = list(rows)
        kept = Digest(listed[0][1], listed[0][2])
        real = digest((row[3], row[4]) for row in listed if row[3] is not None)
        if kept != real:
            wrong.append((session, kept, real))
    return wrong
