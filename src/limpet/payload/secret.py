"""Finds the secret parts of a value, so that they are masked wherever the value is shown."""

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from limpet.domain.errors import PayloadInvalid
from limpet.domain.job import escaped

Path = tuple[str, ...]


class Secret:
    """Marks a parameter or a field as secret: `password: Annotated[str, Secret]`.

    `pydantic.SecretStr` and `SecretBytes` need no mark.
    """


def path_text(path: Path) -> str:
    """A path as the store keeps it."""
    return "/".join(escaped(part) for part in path)


def reveal(shown: Any, whole: Any, path: Path) -> tuple[Any, list[Path]]:
    """Replace the stars of `SecretStr` and `SecretBytes` in a dumped value by the secrets.

    `shown` is the JSON dump, in which secrets are stars. `whole` is the dump in Python's types,
    which has the secrets. Returns the JSON dump with the secrets, and their paths.
    """
    from pydantic import SecretBytes, SecretStr

    if isinstance(whole, SecretStr):
        return whole.get_secret_value(), [path]
    if isinstance(whole, SecretBytes):
        return _text(whole.get_secret_value(), path), [path]
    parts: Iterator[tuple[Any, Any]]
    if isinstance(shown, dict) and isinstance(whole, Mapping) and len(shown) == len(whole):
        parts = zip(shown, whole.values(), strict=True)
    elif isinstance(shown, list) and isinstance(whole, Sequence) and len(shown) == len(whole):
        parts = zip(range(len(shown)), whole, strict=True)
    else:
        return shown, []
    found: list[Path] = []
    for place, item in parts:
        shown[place], below = reveal(shown[place], item, (*path, str(place)))
        found += below
    return shown, found


def _text(secret: bytes, path: Path) -> str:
    try:
        return secret.decode()
    except UnicodeDecodeError:
        raise PayloadInvalid(
            f"{'.'.join(path)} is bytes that are not UTF-8 text, which JSON cannot hold; pass it "
            f"as base64 text.",
            field=path[0],
        ) from None


def marked(hint: Any, tree: Any, path: Path) -> Iterator[Path]:
    """The paths in a dumped value whose annotation carries the `Secret` mark, at any depth.

    Every member of a union is followed: too much is masked rather than too little.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if is_marked(hint.__metadata__):
            yield path
        else:
            yield from marked(arguments[0], tree, path)
    elif origin is Union or origin is types.UnionType:
        for choice in arguments:
            yield from marked(choice, tree, path)
    elif isinstance(tree, list) and arguments:
        yield from _in_list(origin, arguments, tree, path)
    elif isinstance(tree, dict):
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
            for name, item in tree.items():
                yield from marked(arguments[1], item, (*path, name))
        else:
            yield from _in_fields(hint, tree, path)


def is_marked(metadata: Sequence[Any]) -> bool:
    """Whether the metadata of an `Annotated[…]` carries the `Secret` mark."""
    return any(item is Secret or isinstance(item, Secret) for item in metadata)


def _in_list(
    origin: Any, arguments: tuple[Any, ...], tree: list[Any], path: Path
) -> Iterator[Path]:
    if not isinstance(origin, type) or not issubclass(origin, Sequence | Set):
        return
    one_for_each = origin is tuple and arguments[-1] is not Ellipsis
    for place, item in enumerate(tree):
        inner = arguments[place] if one_for_each and place < len(arguments) else arguments[0]
        yield from marked(inner, item, (*path, str(place)))


def _in_fields(hint: Any, tree: dict[str, Any], path: Path) -> Iterator[Path]:
    for names, inner, metadata in _fields(hint):
        for name in names & tree.keys():
            if is_marked(metadata):
                yield (*path, name)
            else:
                yield from marked(inner, tree[name], (*path, name))


def _fields(hint: Any) -> Iterator[tuple[set[str], Any, Sequence[Any]]]:
    """(names in JSON, annotation, metadata) of each field of a model, dataclass or typed dict."""
    kind = get_origin(hint) or hint
    if not isinstance(kind, type):
        return
    if hasattr(kind, "model_fields"):
        for name, info in kind.model_fields.items():
            names = {name, info.alias, info.serialization_alias} - {None}
            yield names, info.annotation, info.metadata
    elif dataclasses.is_dataclass(kind) or hasattr(kind, "__required_keys__"):
        for name, inner in get_type_hints(kind, include_extras=True).items():
            yield {name}, inner, ()
