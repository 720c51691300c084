"""Parts of the PostgreSQL store that need no server."""

import select
import socket
import time
from contextlib import closing

import pytest

import limpet
from limpet.domain.errors import InvalidOption
from limpet.storage.postgres import schema
from limpet.storage.postgres.lists import column, nullable
from limpet.storage.postgres.location import parse
from limpet.storage.postgres.overdue import Overdue


def test_list_is_one_text_and_what_would_break_it_is_refused() -> None:
    assert column([]) == ""
    assert column([""]) == "\x1e"
    assert column(["a", "b"]) == "\x1ea\x1eb"
    assert nullable([None, None]) is None
    assert nullable([None, 7, ""]) == "\x1e\x1d\x1e7\x1e"
    for odd in ("a\x1eb", "a\x00b"):
        with pytest.raises(InvalidOption, match="cannot keep"):
            column(["fine", odd])


def test_functions_are_signed_with_the_release() -> None:
    assert limpet.__version__ == schema.RELEASE


def test_url_is_told_without_its_password() -> None:
    location = parse("postgres://me:secret@db.example:6543/jobs?sslmode=verify-full&schema=abc")
    assert "secret" not in location.url
    assert location.url == "postgresql://me@db.example:6543/jobs?sslmode=verify-full&schema=abc"
    assert "sslmode=verify-full" in location.conninfo
    assert "tcp_user_timeout=4000" in location.conninfo
    assert location.place == ("db.example", "6543", "jobs", "abc")


def test_what_the_url_says_goes_before_what_is_usual() -> None:
    assert "connect_timeout=1 " in parse("postgresql://h/d?connect_timeout=1").conninfo + " "


@pytest.mark.parametrize("name", ["", "Big", "9a", "a-b", "pg_x", "a" * 41])
def test_name_that_cannot_be_a_schema_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="schema"):
        parse(f"postgresql://h/d?schema={name}")


def test_setting_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no setting colour.*postgresql://user"):
        parse("postgresql://h/d?colour=red")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret/x@h/d",
        "postgresql://u:1/s3cret@h/d",
        "postgresql://u:x@s3cret@h/d",
        "postgresql://u:x#s3cret@h/d",
        "postgresql://u:x?s3cret@h/d",
        "postgresql://u:1?s3cret@h/d",
        "postgresql://u:[s3cret@h/d",
        "postgresql://u:%zzs3cret@h/d",
        "postgresql://u:s3cret",
        "postgresql://u:x s3cret@h/d",
        "postgresql://u@h/d?password=x#s3cret",
        "postgresql://u@h/d?s3cret=1",
        "postgresql://[::1/s3cret",
    ],
)
def test_url_that_cannot_be_read_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidOption, match="%40 for @") as refused:
        parse(url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p%40%2F@h:1,[::1]:2,k/d", "postgresql://u@h:1,[::1]:2,k/d"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg"),
        ("postgresql://%2Frun%2Fpg/d", "postgresql://%2Frun%2Fpg/d"),
        (
            "postgresql://h/d?user=me%40there&password=x",
            "postgresql://h/d?user=me%40there&password=***",
        ),
    ],
)
def test_url_in_other_ways_is_read_and_told(url: str, shown: str) -> None:
    location = parse(url)
    assert location.url == shown
    assert "p%40" not in repr(location)


class Wire:
    """What stands for a connection: a socket, which sees its end where it is cut."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()

    def fileno(self) -> int:
        return self._here.fileno()

    def is_cut(self, within_seconds: float = 0.0) -> bool:
        return bool(select.select([self._there], [], [], within_seconds)[0])

    def close(self) -> None:
        self._here.close()
        self._there.close()


@pytest.mark.parametrize("answered", [True, False], ids=["answers", "hangs"])
def test_an_overdue_answer_takes_others_along_only_where_nobody_is_answered(
    answered: bool,
) -> None:
    overdue = Overdue()
    with (
        closing(Wire()) as late,
        closing(Wire()) as patient,
        closing(Wire()) as other,
        overdue.watched(late, 0.3) as use,
        overdue.watched(patient, 60.0) as waits,
    ):
        began = time.monotonic()
        while not use.cut:
            assert time.monotonic() < began + 30
            if answered:
                with overdue.watched(other, 60.0):
                    pass
            time.sleep(0.01)
        # It is noted first, and then cut.
        assert late.is_cut(within_seconds=5.0)
        assert patient.is_cut(within_seconds=0.0 if answered else 5.0) is not answered
        assert waits.cut is not answered
