"""A task's signature: arguments are checked against it when enqueued, and again before the run."""

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.domain.errors import InvalidOption, PayloadInvalid
from limpet.domain.result import Result, has_shape
from limpet.payload import secret
from limpet.payload.hints import NO_RESULT, UNREADABLE, in_result, is_context, read_hints
from limpet.payload.json_text import from_text, to_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

# A parameter of `enqueue` itself, which no task may use.
RESERVED = "within"
_PLAIN_TYPES = (str, int, float, bool)
# Bounds that keep the reason of a misfit to one sentence.
_LONGEST_PLACE, _MOST_REASONS = 120, 10


class Packed(NamedTuple):
    """Arguments as they are stored: JSON text, and the paths in it that are secret."""

    args: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Packed {len(self.args)} characters>"  # without the arguments: they may be secret


_NOTHING = Packed("null", ())


class Signature:
    """The parameters of a task and its result, as they are stored and read."""

    context_name: str | None
    """The parameter annotated with `Context`, which the worker passes; it is never stored."""

    def __init__(self, task: str, function: Callable[..., Any]) -> None:
        self._task = task
        self._function = function
        whole = inspect.signature(function)
        self._annotations = {
            parameter.name: parameter.annotation
            for parameter in whole.parameters.values()
            if parameter.annotation is not parameter.empty
        }
        self.context_name = self._find_context(whole)
        parameters = [
            parameter
            for parameter in whole.parameters.values()
            if parameter.name != self.context_name
        ]
        for parameter in parameters:
            self._check(parameter)
        if whole.return_annotation is not whole.empty:
            self._annotations["return"] = whole.return_annotation
        # The signature for callers that enqueue: without the context.
        self._signature = whole.replace(parameters=parameters)
        self._rest = next(
            (parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD),
            None,
        )
        named = [parameter for parameter in parameters if parameter.name != self._rest]
        self.defaults = {
            parameter.name: parameter.default
            for parameter in named
            if parameter.default is not parameter.empty
        }
        self._by_name = frozenset(parameter.name for parameter in named)
        self._required = self._by_name - self.defaults.keys()

    def _check(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
        if name == RESERVED:
            raise InvalidOption(
                f"task {self._task!r}: the parameter name {RESERVED!r} is taken by enqueue(); "
                f"choose another."
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidOption(
                f"task {self._task!r}: parameter {name!r} cannot be given by name, and arguments "
                f"are stored by name; make it an ordinary parameter."
            )

    def _find_context(self, whole: inspect.Signature) -> str | None:
        found = [
            parameter
            for parameter in whole.parameters.values()
            if parameter.name in self._annotations
            and is_context(self._function, self._annotations[parameter.name])
        ]
        if not found:
            return None
        one = found[0]
        if len(found) > 1 or one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            names = ", ".join(repr(parameter.name) for parameter in found)
            raise InvalidOption(
                f"task {self._task!r}: annotate one ordinary parameter with Context, and no other "
                f"({names})."
            )
        del self._annotations[one.name]
        return one.name

    @property
    def names(self) -> frozenset[str]:
        """The arguments that the task declares, without the context and `**rest`."""
        return self._by_name

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return read_hints(self._function, self._annotations)
        except UNREADABLE as error:
            raise InvalidOption(
                f"task {self._task!r}: its annotations cannot be read ({error}); import what they "
                f"name at the top of the module."
            ) from error

    @cached_property
    def _as_stored(self) -> dict[str, Any]:
        """The types in which arguments are stored unchanged, by name; None stands for any type."""
        found: dict[str, Any] = {}
        for name in self._by_name:
            hint = self._hints.get(name)
            if hint is None or hint is Any:
                found[name] = None
            elif hint in _PLAIN_TYPES:
                found[name] = hint
        return found

    @cached_property
    def _adapters(self) -> "dict[str, TypeAdapter[Any]]":
        return {}

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        """Check arguments and return them as they are stored; raises `PayloadInvalid`."""
        tree = self._bind(args, kwargs)
        secrets: list[str] = []
        plain = self._as_stored
        for name, value in tree.items():
            kind = plain.get(name, self)
            if kind is not None and kind is not type(value):
                hint = self._hint(name)
                if hint is None or hint is Any or (hint in _PLAIN_TYPES and type(value) is hint):
                    continue
                tree[name], found = self._dump(name, hint, value)
                secrets += found
        text = to_text(tree, what=self._task)
        return Packed(text, tuple(secrets))

    def unpack(self, text: str) -> dict[str, Any]:
        """Stored arguments as the task takes them; raises `PayloadInvalid` if they do not fit."""
        return self.read(self.tree(text))

    def tree(self, text: str) -> dict[str, Any]:
        """Stored arguments as a dict of plain JSON values; raises `PayloadInvalid`."""
        try:
            tree = from_text(text)
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(
                f"{self._task}: the stored arguments are not JSON ({error})."
            ) from None
        if not isinstance(tree, dict):
            raise PayloadInvalid(f"{self._task}: the stored arguments are not a JSON object.")
        return tree

    def read(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Like `unpack`, from the dict of `tree`."""
        arguments = self._bind((), tree)
        plain = self._as_stored
        for name, value in arguments.items():
            # This runs for every job: most arguments are of a plain type and stay as they are.
            kind = plain.get(name, self)
            if kind is not None and kind is not type(value):
                arguments[name] = self._read(name, self._hint(name), value)
        return arguments

    def pack_result(self, value: Any) -> Packed:
        """The value that the task returned, as JSON text."""
        if value is None:
            return _NOTHING
        hint = self._hints.get("return")
        if isinstance(value, Result) or (hint is not None and in_result(hint) is not NO_RESULT):
            return self._pack_around(value, hint)
        secrets: list[str] = []
        plain = hint is None or hint is Any or (hint in _PLAIN_TYPES and type(value) is hint)
        if not plain:
            value, paths = self._dump("return", hint, value)
            secrets = [path.partition("/")[2] for path in paths]
        return Packed(to_text(value, what=f"the result of {self._task}"), tuple(secrets))

    def unpack_result(self, text: str) -> Any:
        """A stored result as the task returned it."""
        value = from_text(text)
        hint = self._hints.get("return")
        inner = Any if hint is None or hint is Any else in_result(hint)
        if inner is not NO_RESULT and has_shape(value):
            found = value["value"]
            read = None if found is None else self._read("return", inner, found)
            return Result(read, value["counts"], value["warnings"])
        return value if value is None else self._read("return", hint, value)

    def _pack_around(self, result: Any, hint: Any) -> Packed:
        """A result with counts and warnings, as JSON text."""
        inner = Any if hint is None or hint is Any else in_result(hint)
        if inner is NO_RESULT or not isinstance(result, Result):
            raise PayloadInvalid(
                f"{self._task} returned {type(result).__qualname__}, but is annotated to return "
                f"{_spelled(hint)}; one of them must change.",
                field="return",
            )
        try:
            result.check()  # again: its counts are a dict, which code may have changed since
        except InvalidOption as error:
            raise PayloadInvalid(f"{self._task}: {error}", field="return") from None
        value, secrets = result.value, list[str]()
        if inner is not Any and value is not None:
            value, paths = self._dump("return", inner, value)
            secrets = ["value" + path.removeprefix("return") for path in paths]
        text = to_text(result.around(value), what=f"the result of {self._task}")
        return Packed(text, tuple(secrets))

    def _hint(self, name: str) -> Any:
        if name in self._by_name:
            return self._hints.get(name)
        return None if self._rest is None else self._hints.get(self._rest)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = kwargs.keys()
        all_known = not args and self._by_name.issuperset(names)
        if all_known and (len(names) == len(self._by_name) or self._required <= names):
            return kwargs  # the answer of `bind`, in a tenth of its time
        try:
            if self.context_name in names:
                raise TypeError(
                    f"{self.context_name!r} is the context, which is given when the task runs"
                )
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise PayloadInvalid(
                f"{self._task}{self._signature}: {error}.", field=_quoted(str(error))
            ) from None
        flat: dict[str, Any] = {}
        for name, value in bound.items():
            spread = self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            flat.update(value if spread else {name: value})
        return flat

    def _adapter(self, name: str, hint: Any) -> "TypeAdapter[Any]":
        if name not in self._adapters:
            from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

            try:
                self._adapters[name] = TypeAdapter(hint)
            except (PydanticSchemaGenerationError, PydanticUserError):
                raise InvalidOption(
                    f"task {self._task!r}: {name!r} is annotated with {_spelled(hint)}, which "
                    f"cannot be stored as JSON and restored; use built-in types, a dataclass or a "
                    f"pydantic model."
                ) from None
        return self._adapters[name]

    def _dump(self, name: str, hint: Any, value: Any) -> tuple[Any, list[str]]:
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        adapter = self._adapter(name, hint)
        try:
            checked = adapter.validate_python(value)
            shown = adapter.dump_python(checked, mode="json", by_alias=True)
            whole = adapter.dump_python(checked, mode="python", by_alias=True)
        except ValidationError as error:
            raise self._misfit(name, error) from None
        except PydanticSerializationError as error:
            raise PayloadInvalid(
                f"{self._task}: {name!r} cannot be stored as JSON: {error}.", field=name
            ) from None
        except (ValueError, RecursionError):  # raised by the serializer, which counts the levels
            raise self._too_deep(name) from None
        try:
            tree, hidden = secret.reveal(shown, whole, (name,))
            paths = {*hidden, *secret.marked(hint, tree, (name,))}
            again = self._read(name, hint, tree)
            is_the_same = bool(again == checked)
        except RecursionError:
            raise self._too_deep(name) from None
        if not is_the_same:
            raise PayloadInvalid(
                f"{self._task}: {name!r} would come back from JSON as another value; change its "
                f"annotation, or pass plain data.",
                field=name,
            )
        texts = sorted(secret.path_text(path) for path in paths)
        if any("\0" in text for text in texts):
            raise PayloadInvalid(
                f"{self._task}: {name!r} has a secret in a field whose name contains a zero "
                f"character, which no store can keep; name the field otherwise.",
                field=name,
            )
        return tree, texts

    def _too_deep(self, name: str) -> PayloadInvalid:
        return PayloadInvalid(
            f"{self._task}: {name!r} is nested too deeply, or contains itself; it cannot be stored "
            f"as JSON.",
            field=name,
        )

    def _read(self, name: str, hint: Any, value: Any) -> Any:
        if hint is None or hint is Any or (hint in _PLAIN_TYPES and type(value) is hint):
            return value
        from pydantic import ValidationError

        try:
            # Read as JSON, so that a strict model accepts text for a date.
            return self._adapter(name, hint).validate_json(to_text(value, what=name))
        except ValidationError as error:
            raise self._misfit(name, error) from None

    def _misfit(self, name: str, error: "ValidationError") -> PayloadInvalid:
        return PayloadInvalid(f"{self._task}: {_reasons(name, error)}.", field=name)


def _reasons(name: str, error: "ValidationError") -> str:
    # The place and the reason, but never the value: it may be a secret.
    reasons = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join([name, *(str(part) for part in detail["loc"])])
        if len(where) > _LONGEST_PLACE:
            where = f"{where[: _LONGEST_PLACE // 2]}…{where[-_LONGEST_PLACE // 2 :]}"
        reasons.append(f"{where}: {detail['msg']}")
    if (more := len(reasons) - _MOST_REASONS) > 0:
        reasons = [*reasons[:_MOST_REASONS], f"and {more} more"]
    return "; ".join(reasons)


def _quoted(text: str) -> str:
    parts = text.split("'")
    return parts[1] if len(parts) > 2 else ""


def _spelled(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
