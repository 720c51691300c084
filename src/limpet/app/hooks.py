"""Functions that users add around attempts; they are checked when they are registered."""

import ast
import inspect
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from limpet.domain.cause import Cause
from limpet.domain.errors import InvalidOption
from limpet.payload.context import Context
from limpet.payload.hints import is_context
from limpet.payload.signature import Signature

Hook = TypeVar("Hook", bound=Callable[[], Any])
Middleware = TypeVar("Middleware", bound=Callable[[Context], Iterator[Any] | AsyncIterator[Any]])

_CAUSE = "cause"


@dataclass(frozen=True, slots=True)
class OrphanHook:
    """A function that gets the last run of a job that was lost too often.

    The function receives what it declares: `cause`, a parameter annotated with `Context`, the
    task's own arguments by name, and with `**rest` all other arguments of the task.
    """

    function: Callable[..., Any]
    context_name: str | None
    takes_cause: bool
    names: frozenset[str]
    takes_rest: bool
    defaults: Mapping[str, Any]

    def call(self, ctx: Context, cause: Cause, arguments: Mapping[str, Any]) -> Any:
        """Call the function with the task's unpacked `arguments`; return what it returns."""
        known = {**self.defaults, **arguments}
        given = {
            name: value for name, value in known.items() if self.takes_rest or name in self.names
        }
        if self.takes_cause:
            given[_CAUSE] = cause
        if self.context_name is not None:
            given[self.context_name] = ctx
        return self.function(**given)


def orphan_hook(task: str, signature: Signature, function: Callable[..., Any]) -> OrphanHook:
    """The hook; raises `InvalidOption` where it could not be called."""
    if not callable(function) or is_generator(function):
        raise InvalidOption(f"task {task!r}: @{task}.on_orphaned is for plain or async functions.")
    contexts: list[str] = []
    names: set[str] = set()
    takes_rest = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidOption(
                f"task {task!r}: parameter {parameter.name!r} of its orphan hook cannot be passed "
                f"by name; make it an ordinary parameter."
            )
        elif parameter.annotation is not parameter.empty and is_context(
            function, parameter.annotation
        ):
            contexts.append(parameter.name)
        else:
            names.add(parameter.name)
    unknown = sorted(names - signature.names - {_CAUSE})
    if unknown or len(contexts) > 1:
        raise InvalidOption(
            f"task {task!r}: its orphan hook has the parameter {(unknown or contexts)[-1]!r}; it "
            f"may have `cause`, one annotated with Context, and the task's own: "
            f"{', '.join(sorted(signature.names)) or 'none'}."
        )
    return OrphanHook(
        function=function,
        context_name=contexts[0] if contexts else None,
        takes_cause=_CAUSE in names,
        names=frozenset(names - {_CAUSE}),
        takes_rest=takes_rest,
        defaults=signature.defaults,
    )


def checked_moment(function: Callable[..., Any], name: str) -> None:
    """Check a function for `@app.on_start` or `@app.on_stop`: sync or async, no arguments."""
    if not callable(function) or is_generator(function):
        raise InvalidOption(f"@app.{name} is for plain or async functions without arguments.")
    for parameter in inspect.signature(function).parameters.values():
        optional = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if not optional:
            raise InvalidOption(
                f"@app.{name}: {_name(function)} wants {parameter.name!r}, but it is called "
                f"without arguments."
            )


def checked_middleware(function: Callable[..., Any]) -> None:
    """Check a middleware: a generator of one `yield`, for the context; async for async tasks."""
    form = "write def around(ctx): …; yield; … (or async def)"
    if not callable(function) or not is_generator(function):
        raise InvalidOption(
            f"@app.middleware: {_name(function)} is not a generator function; {form}, without "
            f"@contextmanager."
        )
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise InvalidOption(
            f"@app.middleware: {_name(function)} must have one parameter, the context; {form}."
        )
    count = _yields(function)
    if count is not None and count != 1:
        raise InvalidOption(
            f"@app.middleware: {_name(function)} has {count} yields and must have one, at which "
            f"the attempt runs; {form}."
        )


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a generator, sync or async."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _yields(function: Callable[..., Any]) -> int | None:
    """How many `yield`s the source has; None where there is no source to read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    body = tree.body[0] if tree.body else None
    if not isinstance(body, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    count = 0
    waiting: list[ast.AST] = list(body.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue  # a yield in there belongs to another generator
        # `yield from` may yield any number of times, so it counts as more than one.
        count += 2 if isinstance(node, ast.YieldFrom) else isinstance(node, ast.Yield)
        waiting += ast.iter_child_nodes(node)
    return count


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


@dataclass(slots=True)
class Hooks:
    """The hooks and middlewares of an app, in the order of their registration."""

    start: list[Callable[[], Any]] = field(default_factory=list)
    stop: list[Callable[[], Any]] = field(default_factory=list)
    middlewares: list[Callable[[Context], Any]] = field(default_factory=list)


class TaskHooks:
    """The part of an app that registers hooks and middlewares."""

    _hooks: Hooks

    def on_start(self, function: Hook) -> Hook:
        """Run a function, sync or async, once in each executor before its first job."""
        checked_moment(function, "on_start")
        self._hooks.start.append(function)
        return function

    def on_stop(self, function: Hook) -> Hook:
        """Run a function, sync or async, once in each executor before it ends."""
        checked_moment(function, "on_stop")
        self._hooks.stop.append(function)
        return function

    def middleware(self, function: Middleware) -> Middleware:
        """Wrap every attempt in a generator of one `yield`, at which the attempt runs or raises.

        A sync middleware wraps every task, an async one the async tasks; the first registered is
        the outermost.
        """
        checked_middleware(function)
        self._hooks.middlewares.append(function)
        return function
