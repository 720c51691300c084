"""Finds what waits for the store among the members of the classes that users hold.

A rule, not a list: a member waits if its source asks the store, the client or the worker for
something, or uses another member that does.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

import limpet
from limpet import App
from limpet.client.client import Client

# What is called on one of these names waits; on the others only what is named.
_STORES = {"store", "_store"}
_WAYS = {
    "client": {name for name, member in vars(Client).items() if inspect.isfunction(member)},
    "registry": {"close"},
    "link": {"children"},
}

# By its name alone a call of one of these is taken for one of a dict or a list.
_OF_COLLECTIONS = {*dir(dict), *dir(list)}


def _public() -> Iterator[type]:
    """The classes that `limpet` exports, and those that the properties of an app return."""
    for name in limpet.__all__:
        if isinstance(value := getattr(limpet, name), type):
            yield value
    for _, member in inspect.getmembers(App, lambda member: isinstance(member, property)):
        kind = get_type_hints(member.fget)["return"]
        if isinstance(kind, type) and kind.__module__.startswith("limpet") and kind is not Client:
            yield kind


PUBLIC = tuple(dict.fromkeys(_public()))

Source = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def waiting() -> dict[type, set[str]]:
    """For each public class, its sync public members that wait."""
    found: dict[type, set[str]] = {kind: set() for kind in PUBLIC}
    methods: set[str] = set()
    while True:
        for kind in PUBLIC:
            found[kind] = members_that_wait(kind, methods)
        more = {name for names in found.values() for name in names}
        if more == methods:
            return found
        methods = more


def members_that_wait(kind: type, elsewhere: set[str]) -> set[str]:
    """The sync public members of a class that wait; `elsewhere`: methods of others that do."""
    sources = dict(_sources(kind))
    own: set[str] = set()
    while True:
        more = {name for name in sources if _waits(sources[name], own, elsewhere)}
        if more == own:
            break
        own = more
    return {
        name
        for name in own
        if not name.startswith("_") and isinstance(sources[name], ast.FunctionDef)
    }


def _sources(kind: type) -> Iterator[tuple[str, Source]]:
    """Every function of a class and of its bases, those of the class last."""
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] in sys.stdlib_module_names:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, Source):
                yield node.name, node


def _waits(source: Source, own: set[str], elsewhere: set[str]) -> bool:
    return any(_asks(node, own, elsewhere) for part in source.body for node in ast.walk(part))


def _asks(node: ast.AST, own: set[str], elsewhere: set[str]) -> bool:
    if isinstance(node, ast.Attribute) and _last(node.value) == "self":
        return node.attr in own
    if not isinstance(node, ast.Call):
        return False
    # A function that is given the store asks it; a class only keeps it.
    called = _last(node.func)
    if called[:1].islower() and any(_last(argument) in _STORES for argument in node.args):
        return True
    if not isinstance(node.func, ast.Attribute):
        return False
    holder = _last(node.func.value)
    if holder in _STORES or called in _WAYS.get(holder.lstrip("_"), ()):
        return True
    return holder != "self" and called in elsewhere - _OF_COLLECTIONS


def _last(node: Any) -> str:
    """The last name of an expression: that of `self._client.store` is `store`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
