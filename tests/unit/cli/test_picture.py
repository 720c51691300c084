"""The picture of `limpet top` fits, whatever a store holds."""

import msgspec
import pytest
from unit.drawn import drawn

from limpet.cli.picture import picture
from limpet.cli.style import Column, Style, left_out, line, table, text
from limpet.domain.state import State
from limpet.ops.cause_answer import CauseAnswer
from limpet.ops.overview import (
    JobEventAnswer,
    LiveWorker,
    Overview,
    QueueTotals,
    RunningJob,
    StoreAnswer,
    finished_per_second,
    without_password,
)

NOW = "2026-01-01T12:00:00.000+00:00"


def queue(name: str, **changes: object) -> QueueTotals:
    states = (state.value for state in State)
    numbers = (*states, "finished", "retried", "orphaned", "recovered")
    plain: dict[str, object] = {
        "queue": name, "paused": False, "draining": False, "why": None, "blocked_by": {},
        "head_ready_at": None, "counts": {}, **dict.fromkeys(numbers, 0), **changes,
    }  # fmt: skip
    return msgspec.convert(plain, QueueTotals)


def running(task: str, **changes: object) -> RunningJob:
    plain: dict[str, object] = {
        "id": "01k7h82t4g7stkeejcro4ka8e0", "task": task, "queue": "default", "session": "s",
        "worker": "ann", "attempt": 1, "begun": True, "seconds": 2.5, "cancel_requested": False,
        "progress": None, **changes,
    }  # fmt: skip
    return msgspec.convert(plain, RunningJob)


def seen() -> Overview:
    worker = LiveWorker(
        session="s", name="ann", host="a-host.example", pid=4242, state="live", holds=3,
        heard_seconds_ago=0.4, lease_seconds=10.0, registered_at=NOW,
    )  # fmt: skip
    nasty = {"done": 3, "total": 4, "note": "\033[2J\r\nboo \u202e 文件文件", "at": NOW}
    return Overview(
        at=NOW,
        store=StoreAnswer(url="sqlite:////a/b.db", durability="survives a crash", engine="x"),
        workers=(worker, msgspec.structs.replace(worker, name="ben", state="overdue")),
        queues=(
            queue("default", ready=12, running=40, failed=1, orphaned=7),
            queue("mail", paused=True, blocked=2, blocked_by={"needs task send": 2}),
        ),
        running=(
            running("convert", progress=nasty, attempt=2),
            running("stop", cancel_requested=True),
            *(running(f"task{n}") for n in range(30)),
        ),
        running_total=40,
        events=(
            JobEventAnswer(
                at=NOW, event="recovered", job="01k", task="convert", queue="default",
                cause=CauseAnswer(kind="WorkerGone", text="every process\nis dead"),
            ),
        ),
    )  # fmt: skip


def texts(width: int, height: int | None = None, look: Overview | None = None) -> list[str]:
    return drawn([picture(look or seen(), {"default": 3.25}, width, height)], width, height)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [3, 8, 14, 24, 60])
def test_the_picture_fits_any_terminal(width: int, height: int) -> None:
    assert len(texts(width, height)) == height
    if height > 14:  # where there is room for all titles none is lost below the screen
        assert len(drawn([picture(seen(), None, width, height)], width)) <= height


def test_everything_is_shown_where_there_is_room() -> None:
    whole = "\n".join(texts(160))
    for part in (
        "sqlite:////a/b.db", "survives a crash", "overdue", "0.4s ago", "10s", "3.2",
        "paused; 2 need task send", "75%", "cancel requested", r"every process\nis dead",
            "8 more",
    ):  # fmt: skip
        assert part in whole


def test_a_low_terminal_says_how_much_is_not_shown() -> None:
    lines = texts(80, 20)
    assert any("more" in line for line in lines)
    assert any("convert" in line for line in lines)


def test_what_a_job_wrote_cannot_move_the_cursor() -> None:
    whole = "\n".join(texts(160))
    assert "boo" in whole
    assert "文件" in whole
    assert not any(letter in whole for letter in "\033\r\u202e")


def test_an_empty_store_says_what_to_do() -> None:
    empty = msgspec.structs.replace(
        seen(), workers=(), queues=(), running=(), running_total=0, events=()
    )
    assert any("limpet worker" in line for line in texts(80, look=empty))


def test_an_old_picture_says_so() -> None:
    old = picture(seen(), None, 80, 24, trouble="the file is gone")
    assert "this is old: the file is gone" in drawn([old], 80, 24, colours=True)[1]


def test_on_paper_nothing_is_cut_and_every_column_is_there() -> None:
    long = "sqlite:////" + "a" * 300
    store = StoreAnswer(url=long, durability="survives a crash", engine="x")
    whole = "\n".join(
        drawn([picture(msgspec.structs.replace(seen(), store=store), None, None)], 10_000)
    )
    assert long in whole
    for word in (
        "ORPHANED",
        "REMARK",
        "LAST HEARD",
        "01k7h82t4g7stkeejcro4ka8e0",
        "a-host.example",
    ):
        assert word in whole


MARKUP = "[bold]loud[/bold] [link=https://x.y]click[/link] [/] :warning: \\[red]"


def test_text_is_never_markup() -> None:
    (line,) = drawn([text(MARKUP, Style.BAD)], 200, colours=True)
    assert line == f"\033[31m{MARKUP}\033[0m"
    heads = (Column("A", 1), Column("B", 2))
    assert MARKUP in drawn([table(heads, [(text(MARKUP), text("b"))], None)], 200)[1]


def test_text_is_escaped_before_it_is_cut() -> None:
    heads = (Column("A", 1, least=4),)

    def cut(value: str, width: int) -> str:
        return drawn([table(heads, [(text(value),)], width)], width)[1]

    assert cut("a\n\tb\033[1m", 20) == r"a\n\tb\x1b[1m"
    assert cut("\033[2J\nworld", 8) == r"\x1b[2J…"
    assert cut("文文文", 4) == "文 …"
    assert text("\u202e").cell_len == 6
    lines = drawn([line(("\033[2J\n", Style.BAD), ("world", Style.GOOD))], 11, colours=True)
    assert lines == ["\033[31m\\x1b[2J\\n\033[0m\033[32mw…\033[0m"]


def test_a_table_gives_up_its_least_columns_and_says_which() -> None:
    heads = (Column("ID", 9), Column("NAME", 5, least=4), Column("MORE", 1))
    rows = [(text("0123456789"), text("a long name"), text("and more"))]
    assert drawn([table(heads, rows, None)], 200)[1] == "0123456789  a long name  and more"
    assert left_out(heads, rows, None) == []
    assert drawn([table(heads, rows, 20)], 20)[1] == "0123456789  a long …"
    (said,) = left_out(heads, rows, 20)
    assert said.plain == "no room for MORE: a wider terminal or --json has them"
    assert drawn([table(heads, rows, 5)], 5)[1] == "0123…"


def test_an_optional_column_is_there_where_it_has_something_to_show() -> None:
    heads = (Column("ID", 9), Column("REMARK", 1, optional=True))
    assert drawn([table(heads, [(text("1"), text(""))], None)], 80) == ["ID", "1"]
    assert drawn([table(heads, [(text("1"), text("x"))], None)], 80)[0] == "ID  REMARK"


def test_finished_jobs_per_second_are_told_by_queue() -> None:
    before = msgspec.structs.replace(seen(), queues=(queue("a", finished=10),))
    after = msgspec.structs.replace(
        before,
        at="2026-01-01T12:00:02.000+00:00",
        queues=(queue("a", finished=30), queue("b", finished=4)),
    )
    assert finished_per_second(before, after) == {"a": 10.0, "b": 2.0}
    assert finished_per_second(after, after) == {}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("redis://me:hunter2@host:1/0", "redis://me:***@host:1/0"),
        ("redis://:hunter2@host/0", "redis://:***@host/0"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
    ],
)
def test_a_password_in_the_url_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
