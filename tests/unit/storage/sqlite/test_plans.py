"""Hot statements find their rows by an index: a million other jobs must cost nothing."""

import re

import apsw
import pytest

from limpet.domain.clock import SystemClock
from limpet.storage.assets import names, script
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.schema import apply

PACKAGE = "limpet.storage.sqlite"
# These read everything: asked for by a person, or once in a long time, where something is broken.
WHOLE = {"invariants", "repair_store"}
STATEMENTS = [
    (verb, name)
    for verb in (each.removesuffix(".sql") for each in names(PACKAGE, "sql"))
    if verb not in WHOLE
    for name in script(PACKAGE, "sql", verb).statements
]


@pytest.fixture(scope="module")
def connection() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    apply(made, parse("sqlite://"), SystemClock())
    return made


def plan(connection: apsw.Connection, text: str) -> list[str]:
    values = dict.fromkeys(re.findall(r":(\w+)", text)) or (None,) * text.count("?")
    rows = connection.execute("EXPLAIN QUERY PLAN " + text, values).fetchall()
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize(("verb", "name"), STATEMENTS, ids="-".join)
def test_no_statement_reads_all_jobs(connection: apsw.Connection, verb: str, name: str) -> None:
    tables = ("limpet_job", "limpet_payload", "limpet_result", "limpet_event", "limpet_log")
    big = (*tables, "limpet_key", *"jvwtho")  # and as the statements call them
    steps = plan(connection, script(PACKAGE, "sql", verb)[name])
    scans = [step for step in steps if re.match(rf"SCAN ({'|'.join(big)})\b", step)]
    # The whole list, newest first, is read from its end and as far as it is shown. A move counts
    # every row once, when nobody works there. Whether there is any keyed job, the first one tells.
    assert scans == [] or (verb, name) in {
        ("inspect", "jobs"),
        ("cargo", "counts"),
        ("cargo", "forget_lines"),
        ("moved_settings", "keys"),
        ("moved_settings", "forget_keys"),
        ("settle", "tied"),
    }


@pytest.mark.parametrize(
    ("verb", "name", "index"),
    [
        ("fence", "holding", "sqlite_autoindex_limpet_job_1 (id=?)"),
        ("fence", "begin", "sqlite_autoindex_limpet_job_1 (id=?)"),
        ("settle", "completing", "sqlite_autoindex_limpet_job_1 (id=?)"),
        ("settle", "complete", "INTEGER PRIMARY KEY (rowid=?)"),
        ("settle", "results", "sqlite_autoindex_limpet_job_1 (id=?)"),
        ("claim", "take", "INTEGER PRIMARY KEY (rowid=?)"),
        ("claim", "tasks", "limpet_job_ready (queue=?)"),
        ("claim", "candidates", "limpet_job_ready (queue=? AND task=? AND suspect=?)"),
        ("claim", "taken", "INTEGER PRIMARY KEY (rowid=?)"),
        ("promote", "due", "limpet_job_due (ready_at<?)"),
        ("keys", "state", "limpet_job_line (key=?)"),
        ("keys", "heads", "limpet_job_line (key=?)"),
        ("keys", "line", "limpet_job_line (key=?)"),
        ("keys", "heads", "limpet_job_turn (key=?)"),
        ("keys", "due", "limpet_key_next (next_at>? AND next_at<?)"),
        ("after", "left", "INTEGER PRIMARY KEY (rowid=?)"),
        ("after", "parents", "sqlite_autoindex_limpet_job_1 (id=?)"),
        ("after", "unfinished", "limpet_job_child (parent=? AND rowid>?)"),
        ("after", "bounded", "limpet_queue_bounded"),
        ("unique", "holders", "limpet_job_sole (task=? AND unique_key=?)"),
        ("flow", "next", "limpet_flow_open"),
        ("promote", "again", "limpet_job_relaunch (relaunch_at>? AND relaunch_at<?)"),
        ("breakers", "not_closed", "limpet_breaker_open"),
        ("prune", "old", "limpet_job_finished (state=? AND finished_at>? AND finished_at<?)"),
        ("recover", "orphans", "limpet_job_held (session=?)"),
        ("recover", "widowed", "limpet_job_held (session=?)"),
        ("session", "cancels", "limpet_job_cancel (session=?)"),
        ("inspect", "jobs_in_state", "limpet_job_by_state (state=? AND n<?)"),
        ("inspect", "jobs_running", "limpet_job_held (session>?)"),
    ],
)
def test_a_hot_statement_uses_its_index(
    connection: apsw.Connection, verb: str, name: str, index: str
) -> None:
    steps = plan(connection, script(PACKAGE, "sql", verb)[name])
    assert any(index in step for step in steps), steps
    # What is completed is put together by queue, and what runs is put in order; that is a batch,
    # not a table.
    assert name in ("completing", "jobs_running") or not any(
        "TEMP B-TREE" in step for step in steps
    ), steps
