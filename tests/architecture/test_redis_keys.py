"""docs/concepts/redis-keys.md lists every key of the Redis store with its writers, and no other."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from limpet.storage.redis import layout

STORE = Path(layout.__file__).parent
LUA = STORE / "lua"
SCRIPTS = {
    path.relative_to(LUA).as_posix().removesuffix(".lua"): re.sub(
        r"^\s*--.*$", "", path.read_text(), flags=re.MULTILINE
    )
    for path in sorted(LUA.rglob("*.lua"))
}
PYTHON = "\n".join(path.read_text() for path in sorted(STORE.glob("*.py")))
PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "redis-keys.md").read_text()
TABLE = PAGE.split("## Fields of")[0]

# A key after the prefix of the name space: with the slash where something follows.
KEY = r"'([a-z_]+/?)"
# Fields of the hashes `flow/…` and `store` that have a slash as keys do.
FIELDS = {"queues/", "passed/"}
READS = {
    "EXISTS", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "HSTRLEN",
    "LINDEX", "LRANGE", "SCARD", "SISMEMBER", "SMEMBERS", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE",
    "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREVRANGE", "ZREVRANGEBYSCORE", "ZSCORE",
}  # fmt: skip


def rows() -> Iterator[tuple[str, str, set[str]]]:
    """Of each key in the table: its name up to the slash, its type, the files that write it."""
    for line in TABLE.splitlines():
        if line.startswith("| `"):
            key, type_, _, writers, _ = line.strip("| ").split(" | ")
            found = re.match(r"`([a-z_]+/?)", key)
            assert found is not None, line
            yield found[1], type_, set(re.findall(r"`([a-z_/]+)`", writers))


WRITERS = {key: writers for key, type_, writers in rows() if type_ != "channel"}
CHANNELS = {key: writers for key, type_, writers in rows() if type_ == "channel"}


def calls(text: str) -> Iterator[tuple[set[str], str]]:
    """The commands of each call in a script, and what follows them up to the end of the call."""
    text = text.replace("'('", "''")  # the bound of a range
    for call in re.finditer(r"(?:redis\.p?call|many)\(([^,]*),", text):
        end, depth = call.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield set(re.findall(r"'([A-Z]+)'", call[1])), text[call.end() : end]


def written() -> dict[str, set[str]]:
    """The scripts that name a key in a call that writes it."""
    found = defaultdict(set)
    for name, text in SCRIPTS.items():
        for commands, given in calls(text):
            if not (commands and commands <= READS) and "PUBLISH" not in commands:
                for key in re.findall(rf"P \.\. \(?{KEY}", given):
                    found[key].add(name)
    return found


def named_in_scripts() -> set[str]:
    text = "\n".join(SCRIPTS.values())
    published = set(re.findall(rf"'PUBLISH', P \.\. {KEY}", text))
    slashed = {key for key in re.findall(KEY, text) if key.endswith("/")} - FIELDS
    return (set(re.findall(rf"P \.\. \(?{KEY}", text)) - published) | slashed


def named_in_python() -> set[str]:
    """The key of the store, those that a move writes, those that fsck scans."""
    assert 'return f"{{{self.namespace}}}:store"' in PYTHON
    moved = re.findall(r'(?:put\(|\[|, )\(?"[A-Z]+", "([a-z_]+)"', PYTHON)
    scanned = re.search(r"^_BESIDE = \(([^)]*)\)", PYTHON, flags=re.MULTILINE)
    assert scanned is not None
    return {"store", *moved, *re.findall(r'"([a-z_]+)"', scanned[1])}


def test_every_key_is_listed_once() -> None:
    keys = [key for key, _, _ in rows()]
    assert sorted(set(keys)) == sorted(keys)


def test_every_key_that_the_store_names_is_listed() -> None:
    assert (named_in_scripts() | named_in_python()) - WRITERS.keys() == set()


def test_every_key_that_is_listed_is_named_by_a_script() -> None:
    assert WRITERS.keys() - named_in_scripts() == set()


def test_every_script_that_writes_a_key_by_its_name_is_listed_with_it() -> None:
    """Some write a key that they find in a variable; the page lists these too."""
    missing = {key: names - WRITERS.get(key, set()) for key, names in written().items()}
    assert {key: names for key, names in missing.items() if names} == {}


def test_every_writer_that_is_listed_is_a_script() -> None:
    listed = set().union(*WRITERS.values(), *CHANNELS.values())
    assert listed - SCRIPTS.keys() == set()


def test_every_channel_is_listed() -> None:
    text = "\n".join(SCRIPTS.values())
    rung = set(re.findall(r"rings\.([a-z]+) = true", text))
    published = set(re.findall(rf"'PUBLISH', P \.\. {KEY}", text))
    tried = set(re.findall(r'removesuffix\("store"\) \+ "([a-z]+)"', PYTHON))
    assert rung | published | tried == CHANNELS.keys()


def test_the_page_names_every_layout_of_packed_fields() -> None:
    assert len(layout.LAYOUTS) == 4
    for fields in (
        layout.RowFields,
        layout.HeldFields,
        layout.Place,
        layout.ReservationFields,
    ):
        assert f"`{fields.__name__}`" in TABLE


def test_a_key_that_no_script_names_is_found() -> None:
    assert "nothing" not in named_in_scripts()
    assert {"row", "ready/", "alone/", "samples/"} <= named_in_scripts()
    assert "prune" in written()["session/"] | WRITERS["session/"]
