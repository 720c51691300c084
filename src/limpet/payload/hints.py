"""Reads the annotations of a function as types, whether they are objects or text."""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from limpet.domain.result import Result
from limpet.payload.context import Context

# The errors raised by an annotation that names something unknown, or that is nonsense.
UNREADABLE = (NameError, TypeError, AttributeError, SyntaxError)

# Looked up last: annotations may name these even if only type checkers import them.
_OURS = {"Context": Context, "Result": Result, "limpet": sys.modules["limpet"]}

# The answer of `in_result` for any other annotation.
NO_RESULT = object()


def read_hints(function: Callable[..., Any], annotations: dict[str, Any]) -> dict[str, Any]:
    """The annotations as types, with their `Annotated[…]`; raises one of `UNREADABLE`."""
    holder = types.SimpleNamespace(__annotations__=annotations)
    return get_type_hints(holder, _OURS, _names_of(function), include_extras=True)


def is_context(function: Callable[..., Any], annotation: Any) -> bool:
    """Whether an annotation stands for `Context`, or `Context | None`."""
    try:
        hint = read_hints(function, {"it": annotation})["it"]
    except Exception:
        return False  # it names something that is defined later or nowhere: not `Context`
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return set(get_args(hint)) == {Context, types.NoneType}
    return hint is Context


def in_result(hint: Any) -> Any:
    """The T of `Result[T]` or `Result[T] | None`, Any for a bare `Result`; else `NO_RESULT`."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [member for member in get_args(hint) if member is not types.NoneType]
        return in_result(rest[0]) if len(rest) == 1 else NO_RESULT
    if hint is Result:
        return Any
    return get_args(hint)[0] if get_origin(hint) is Result else NO_RESULT


def _names_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that are known in the module of the function."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    names: dict[str, Any] = getattr(inner, "__globals__", {})
    return names
