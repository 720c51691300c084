"""Rows of Redis: Lua and Python read the same bytes, and no script counts them by itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from servers import shared_url

from limpet.storage.redis import layout
from limpet.storage.redis.layout import LAYOUTS, ROW, STATES, RowFields, in_numbers
from limpet.storage.redis.link import script_of

LUA = Path(layout.__file__).parent / "lua"
SCRIPTS = sorted(LUA.rglob("*.lua"))
# As stores keep it: first byte, counted from 1, and last.
KEPT = {
    "state": (1, 1), "begun": (2, 2), "token": (3, 10), "seq": (11, 14), "pool": (15, 15),
    "claimed_at": (16, 23), "finished_at": (24, 31), "suspect": (32, 32), "last_run": (33, 33),
    "flags": (34, 34), "round": (35, 38), "failures": (39, 42), "orphans": (43, 46),
    "strikes": (47, 50), "expires_at": (51, 58), "deadline_at": (59, 66),
    "requested_at": (67, 74), "priority": (75, 78), "ready_at": (79, 86), "created_at": (87, 94),
    "number": (95, 100), "session_length": (101, 101),
}  # fmt: skip


def test_rows_are_as_stores_keep_them() -> None:
    """Who moves a field raises the version of the schema, and changes this."""
    text = " ".join(f"@row.{name} @row.{name}.last" for name in RowFields._fields)
    numbers = [int(number) for number in in_numbers(text).split()]
    assert dict(zip(RowFields._fields, zip(*[iter(numbers)] * 2, strict=True), strict=True)) == KEPT
    assert in_numbers("@row.session @held.token @held.line @place.id") == "102 3 11 7"
    assert in_numbers("@reservation.token @reservation.token.last @reservation.holder") == "9 16 17"


def test_names_are_filled_in_as_lua_takes_them() -> None:
    assert in_numbers("@row.token.format, @row.token") == "'>I8', 3"
    assert in_numbers("@row.suspect:deadline_at") == "'>BBBI4I4I4I4dd'"
    assert in_numbers("@flag.turn @state.running @state.running.byte") == r"8 4 '\4'"
    for wrong in ("@row.tokens", "@rows.token", "@flag.none", "@state.done", "@row.token:none"):
        with pytest.raises((KeyError, ValueError)):
            in_numbers(wrong)


def test_lua_and_python_pack_the_same() -> None:
    row = RowFields(
        state=STATES.index(STATES[-1]) + 1, begun=1, token=2**53 - 1, seq=2**32 - 2, pool=3,
        claimed_at=1.5e15, finished_at=-1, suspect=1, last_run=0, flags=127, round=4, failures=5,
        orphans=6, strikes=7, expires_at=-1, deadline_at=2.5e15, requested_at=-1, priority=-8,
        ready_at=3.5e15, created_at=4.5e15, number=(2**48 - 1).to_bytes(6, "big"),
        session_length=26,
    )  # fmt: skip
    packed = ROW.packing(*RowFields._fields).pack(*row)
    assert len(packed) == ROW.offset("session")
    script = in_numbers(
        "local got = {struct.unpack(@row.state:session_length, ARGV[1])} "
        "local told = {struct.pack(@row.state:session_length, unpack(got, 1, #got - 1))} "
        "for _, number in ipairs(got) do told[#told + 1] = string.format('%.0f', number) end "
        "return told"
    )
    with redis.Redis.from_url(shared_url("redis")) as server:
        again, *numbers = server.eval(script, 0, packed)
    assert again == packed
    expected = [*row[:-2], 2**48 - 1, 26]
    assert [int(number) for number in numbers[:-1]] == [int(number) for number in expected]


def test_python_and_lua_name_the_states_in_the_same_order() -> None:
    text = (LUA / "include" / "row.lua").read_text()
    found = re.search(r"local STATES = \{([^}]*)\}", text)
    assert found is not None
    assert re.findall(r"'(\w+)'", found[1]) == [str(state) for state in STATES]


@pytest.mark.parametrize("path", sorted(LUA.glob("*.lua")), ids=lambda path: path.stem)
def test_script_reaches_the_server_with_numbers(path: Path) -> None:
    assert re.findall(r"@\w+", script_of(path.stem).text) == []


def test_every_field_of_a_layout_that_is_named_is_one() -> None:
    text = "".join(path.read_text() for path in SCRIPTS)
    assert set(re.findall(r"@(\w+)\.", text)) == {*LAYOUTS, "flag", "state"}


# What is no row: the head of a line (`ready/`, `alone/`), msgpack, lists of tokens, names of hosts.
OTHERS = {
    "exchange.lua": {"struct.unpack('>I8', tokens, #tokens == 8 and 1 or 8 * place - 7)"},
    "publish_host.lua": {"struct.pack('>d', now)", "struct.pack('>d', at)"},
    "include/after.lua": {"string.sub(line, 7)"},
    "include/claim.lua": {
        "string.sub(line, 7)",
        "string.sub(sources[1].line, 7)",
        "struct.pack('>I2', #parts / 4)",
    },
    "include/keys.lua": {"string.byte(text, 2)", "string.sub(text, 3, head - 158)"},
    "include/permits.lua": {
        "struct.pack('>I2', #server)",
        "string.sub(text, 3 + struct.unpack('>I2', text))",
        "struct.unpack('>I2', text)",
    },
    "include/settle.lua": {
        "string.sub(tokens, 8 * place - 7, 8 * place)",
        "struct.unpack('>I8', token)",
    },
}
CALL = re.compile(r"(?:string\.(?:sub|byte|find)|struct\.(?:un)?pack)\(")
# A format of its own; in string.byte any number; else a number above 1, counted from the front.
BARE = re.compile(r"^struct\.\w+\('|^string\.byte\(.*, \d|[ (](?<!- )(?:[2-9]|\d\d+)\b")


def calls(text: str) -> Iterator[str]:
    """The calls that look into a text, up to their closing bracket."""
    for start in CALL.finditer(text):
        depth, end = 1, start.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield re.sub(r"\s+", " ", text[start.start() : end])


def bare(text: str) -> set[str]:
    """Those that count bytes."""
    return {call for call in calls(re.sub(r"^\s*--.*$", "", text, flags=re.M)) if BARE.search(call)}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_no_script_counts_bytes_of_a_row(path: Path) -> None:
    assert bare(path.read_text()) == OTHERS.get(path.relative_to(LUA).as_posix(), set())


def test_the_search_for_counted_bytes_finds_them() -> None:
    for line in (
        "string.sub(row, 3, 10)", "string.byte(row, 1)", "struct.unpack('>I8', held, 3)",
        "string.sub(row, 102 + string.byte(row, 101))", "string.find(kept, '/', 11, true)",
        "string.sub(row, @row.token, 10)", "struct.pack('>dd', 1, 2)",
    ):  # fmt: skip
        assert line in bare(line)
    for line in ("string.sub(row, @row.token)", "string.sub(id, -8)", "string.sub(line, 1, 1)"):
        assert bare(line) == set()
