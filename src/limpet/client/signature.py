"""A task's signature: arguments are checked against it when enqueued and again before running."""

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from limpet.client import secret
from limpet.client.json_text import from_text, to_text
from limpet.domain.errors import InvalidOption, PayloadInvalid

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

# Taken by `enqueue` itself.
RESERVED = "within"
_PLAIN_TYPES = (str, int, float, bool)


class Packed(NamedTuple):
    """Arguments as they are stored: JSON text, and the paths in it that are secret."""

    args: str
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Packed {len(self.args)} characters>"  # they may hold secrets


class Signature:
    """What a task takes and returns."""

    def __init__(self, task: str, function: Callable[..., Any]) -> None:
        self._task = task
        self._function = function
        self._signature = inspect.signature(function)
        for name, parameter in self._signature.parameters.items():
            if name == RESERVED:
                raise InvalidOption(
                    f"task {task!r}: the parameter name {RESERVED!r} is taken by enqueue(); "
                    f"choose another."
                )
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise InvalidOption(
                    f"task {task!r}: parameter {name!r} cannot be given by name, and arguments "
                    f"are stored by name; make it an ordinary parameter."
                )

        parameters = self._signature.parameters.values()
        self._by_name = frozenset(each.name for each in parameters if each.kind != each.VAR_KEYWORD)
        self._required = frozenset(
            each.name
            for each in parameters
            if each.kind != each.VAR_KEYWORD and each.default is each.empty
        )

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except (NameError, TypeError, AttributeError) as error:
            raise InvalidOption(
                f"task {self._task!r}: its annotations cannot be read ({error}); import what they "
                f"name at the top of the module."
            ) from error

    @cached_property
    def _adapters(self) -> "dict[str, TypeAdapter[Any]]":
        return {}

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        """Check arguments and make them storable, or raise `PayloadInvalid`."""
        tree: dict[str, Any] = {}
        secrets: list[str] = []
        for name, value in self._bind(args, kwargs).items():
            hint = self._hint(name)
            if hint is None or hint is Any or (hint in _PLAIN_TYPES and type(value) is hint):
                tree[name] = value
            else:
                tree[name], found = self._dump(name, hint, value)
                secrets += found
        text = to_text(tree, what=self._task)
        return Packed(text, tuple(secrets))

    def unpack(self, text: str) -> dict[str, Any]:
        """Stored arguments as the task takes them, or `PayloadInvalid` where they do not fit."""
        tree = from_text(text)
        if not isinstance(tree, dict):
            raise PayloadInvalid(f"{self._task}: the stored arguments are not a JSON object.")
        bound = self._bind((), tree)
        return {name: self._read(name, self._hint(name), value) for name, value in bound.items()}

    def pack_result(self, value: Any) -> Packed:
        """What the task returned, as JSON text."""
        hint = self._hints.get("return")
        secrets: list[str] = []
        if hint is not None and hint is not Any and value is not None:
            value, paths = self._dump("return", hint, value)
            secrets = [path.partition("/")[2] for path in paths]
        return Packed(to_text(value, what=f"the result of {self._task}"), tuple(secrets))

    def unpack_result(self, text: str) -> Any:
        """A stored result as the task returned it."""
        value = from_text(text)
        hint = self._hints.get("return")
        return value if value is None else self._read("return", hint, value)

    def _hint(self, name: str) -> Any:
        if name in self._signature.parameters:
            return self._hints.get(name)
        return next(
            (
                self._hints.get(each.name)
                for each in self._signature.parameters.values()
                if each.kind is each.VAR_KEYWORD
            ),
            None,
        )

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = kwargs.keys()
        if not args and self._required <= names <= self._by_name:
            return kwargs  # what `bind` would say, in a tenth of its time
        try:
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
        except (PydanticSerializationError, RecursionError) as error:
            raise PayloadInvalid(
                f"{self._task}: {name!r} cannot be stored as JSON: {error}.", field=name
            ) from None
        tree, hidden = secret.reveal(shown, whole, (name,))
        paths = {*hidden, *secret.marked(hint, tree, (name,))}
        again = self._read(name, hint, tree)
        if again != checked:
            raise PayloadInvalid(
                f"{self._task}: {name!r} would come back from JSON as another value; change its "
                f"annotation, or pass plain data.",
                field=name,
            )
        return tree, sorted(secret.path_text(path) for path in paths)

    def _read(self, name: str, hint: Any, value: Any) -> Any:
        if hint is None or hint is Any or (hint in _PLAIN_TYPES and type(value) is hint):
            return value
        from pydantic import ValidationError

        try:
            # As JSON, so that a strict model knows that a date can only be a text here.
            return self._adapter(name, hint).validate_json(to_text(value, what=name))
        except ValidationError as error:
            raise self._misfit(name, error) from None

    def _misfit(self, name: str, error: "ValidationError") -> PayloadInvalid:
        return PayloadInvalid(f"{self._task}: {_reasons(name, error)}.", field=name)


def _reasons(name: str, error: "ValidationError") -> str:
    # Where and why, but never the value: it may be a secret.
    reasons = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join([name, *(str(part) for part in each["loc"])])
        reasons.append(f"{where}: {each['msg']}")
    return "; ".join(reasons)


def _quoted(text: str) -> str:
    parts = text.split("'")
    return parts[1] if len(parts) > 2 else ""


def _spelled(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
