"""The annotations of a function as types, however they are written."""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from limpet.domain.result import Result
from limpet.payload.context import Context

# What reading an annotation that names something unknown, or nonsense, raises.
UNREADABLE = (NameError, TypeError, AttributeError, SyntaxError)

# Found last, so that an annotation holds that names what only type checkers import.
_OURS = {"Context": Context, "Result": Result, "limpet": sys.modules["limpet"]}

# What `in_result` says of anything else.
NO_RESULT = object()


def read_hints(function: Callable[..., Any], annotations: dict[str, Any]) -> dict[str, Any]:
    """The annotations as types, with what `Annotated[…]` adds; raises one of `UNREADABLE`."""
    holder = types.SimpleNamespace(__annotations__=annotations)
    return get_type_hints(holder, _OURS, _names_of(function), include_extras=True)


def is_context(function: Callable[..., Any], annotation: Any) -> bool:
    """Tell whether an annotation stands for `Context`, or `Context | None`."""
    try:
        hint = read_hints(function, {"it": annotation})["it"]
    except Exception:
        return False  # something else, that is defined later or nowhere
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return set(get_args(hint)) == {Context, types.NoneType}
    return hint is Context


def in_result(hint: Any) -> Any:
    """The T of `Result[T]` or `Result[T] | None`, Any where it is not said; else `NO_RESULT`."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [each for each in get_args(hint) if each is not types.NoneType]
        return in_result(rest[0]) if len(rest) == 1 else NO_RESULT
    if hint is Result:
        return Any
    return get_args(hint)[0] if get_origin(hint) is Result else NO_RESULT


def _names_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that are known where the function is written."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    names: dict[str, Any] = getattr(inner, "__globals__", {})
    return names
