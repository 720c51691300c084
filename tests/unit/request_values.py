"""Values of requests and answers by their types, for hypothesis.

What a bounded type says is generated within its bounds, as the plain data that travels.
"""

import dataclasses
import typing
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from limpet.domain.cause import Cause, Unknown
from limpet.domain.rate import Rate
from limpet.domain.schedule import Timing
from limpet.worker.wire.request_bounds import bounded

JOB_ID = st.from_regex(r"[0-7][0-9a-v]{25}", fullmatch=True)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,9}", fullmatch=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
_OPTIONS = st.sampled_from(["{}", '{"timeout":1.5}', '{"retry":{"attempts":2},"new":[1]}'])
_EVERY = st.integers(1_000_000, 10**12)
_CRON = st.sampled_from(["0 3 * * *", "*/15 9-17 * * MON-FRI"])

# What is checked beside the bounds of each field.
_NAMED: Mapping[str, st.SearchStrategy[Any]] = {
    "options": _OPTIONS,
    "task": NAME,
    "queue": NAME,
    "key_rate": st.none(),
}
_RATE = st.builds(lambda count, more, burst: [count, count + more, burst],
                  st.integers(1, 1_000), st.integers(0, 10**9), st.integers(1, 1_000))  # fmt: skip
_TIMING = st.one_of(
    st.builds(lambda every: {"every": every, "jitter": every // 2}, _EVERY),
    st.builds(lambda cron, tz: {"cron": cron, "tz": tz}, _CRON, st.sampled_from(["UTC"])),
)


@cache
def sent(kind: Any) -> st.SearchStrategy[Any]:
    """Plain data that is within the bounds of a type of the table."""
    if kind is Rate:
        return _RATE
    if kind is Timing:
        return _TIMING
    return _plain(bounded(kind))


def _plain(kind: Any) -> st.SearchStrategy[Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _within(parts[0], parts[1])
    if origin in (Union, UnionType):
        return st.one_of([_plain(part) for part in parts])
    if origin is Literal:
        return st.sampled_from(parts)
    if kind is NoneType:
        return st.none()
    if kind is bool:
        return st.booleans()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from([member.value for member in kind])
    return _fields(kind)


def _within(kind: Any, meta: msgspec.Meta) -> st.SearchStrategy[Any]:
    if kind is int:
        low, high = meta.ge, meta.le
        assert isinstance(low, int)
        assert isinstance(high, int)
        return st.one_of(st.integers(low, high), st.sampled_from([low, high]))
    if kind is str:
        if meta.pattern is not None and meta.max_length is None:
            return NAME.filter(lambda name: not name.startswith("limpet:")) \
                if "limpet:" in meta.pattern or "A-Z" in meta.pattern else JOB_ID  # fmt: skip
        if meta.min_length == 26:
            return JOB_ID
        return st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]),
                       min_size=meta.min_length or 0, max_size=6)  # fmt: skip
    if get_origin(kind) is dict:
        return st.dictionaries(*(_plain(part) for part in get_args(kind)), max_size=3)
    assert get_origin(kind) is list, kind
    return st.lists(_plain(get_args(kind)[0]), max_size=3)


def _fields(kind: Any) -> st.SearchStrategy[Any]:
    """A class, as an array or as a map by name."""
    hints = get_type_hints(kind, include_extras=True)
    if kind.__name__ == Rate.__name__:
        return _RATE
    if kind.__name__ == Timing.__name__:
        return _TIMING
    of_job = {"args", "options"} <= set(hints) or "key_rate" in hints
    values = {
        name: _NAMED[name] if of_job and name in _NAMED else _plain(hint)
        for name, hint in hints.items()
        if get_origin(hint) is not ClassVar
    }
    if issubclass(kind, tuple):
        return st.tuples(*values.values()).map(list)
    config = kind.__struct_config__
    if config.array_like:
        return st.tuples(st.just(config.tag), *values.values()).map(list)
    return st.fixed_dictionaries(values)


# -- answers


@cache
def answered(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an answer's type, as a store gives them."""
    origin, parts = get_origin(kind), get_args(kind)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(0, 1 << 45),
        float: st.floats(0, 1e9),
        bool: st.booleans(),
        NoneType: st.none(),
        timedelta: st.timedeltas(timedelta(0), timedelta(days=1_000)),
        # Of an unknown one without a sentence the timeline keeps the name as the sentence.
        Cause: st.deferred(
            lambda: st.one_of([_built(each) for each in Cause.__subclasses__()])
        ).filter(lambda cause: not isinstance(cause, Unknown) or cause.text != ""),
    }
    if kind in simple:
        return simple[kind]
    if origin in (Union, UnionType):
        return st.one_of([answered(part) for part in parts])
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is tuple and parts[-1:] != (...,):
        return st.tuples(*map(answered, parts))
    if origin in (tuple, list):
        return st.lists(answered(parts[0]), max_size=3).map(origin)
    if origin is frozenset:
        return st.frozensets(answered(parts[0]), max_size=3)
    if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
        return st.dictionaries(answered(parts[0]), answered(parts[1]), max_size=3)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return _built(kind)


def _built(kind: Any) -> st.SearchStrategy[Any]:
    names = kind._fields if issubclass(kind, tuple) else [f.name for f in dataclasses.fields(kind)]
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: answered(hints[name]) for name in names})


# -- nonsense

NONSENSE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), TEXT,
        st.binary(max_size=6), st.sampled_from(["limpet:x", "\x1b[2J", "a/b", "{", "x" * 70_000]),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.integers(0, 9), inner),
    max_leaves=6,
)  # fmt: skip


@st.composite
def spoilt(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """A value of which one part, at any depth, is something else."""
    return _spoil(draw, draw(values))


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list | dict) and value and draw(st.integers(0, 3)):
        places = list(value) if isinstance(value, dict) else range(len(value))
        place = draw(st.sampled_from(list(places)))
        changed = value.copy()
        changed[place] = _spoil(draw, value[place])
        return changed
    return draw(NONSENSE)
