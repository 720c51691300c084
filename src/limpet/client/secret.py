"""Which parts of a value are secret, so that they are masked wherever anything is shown."""

import dataclasses
from typing import Any, get_type_hints

from limpet.domain.job import escaped


class Secret:
    """Marks a parameter or a field as secret: `password: Annotated[str, Secret]`.

    `pydantic.SecretStr` and `SecretBytes` need no mark.
    """


def is_marked(metadata: Any) -> bool:
    """Tell whether the extras of an `Annotated[…]` carry the mark."""
    return any(each is Secret or isinstance(each, Secret) for each in metadata)


def secret_parts(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Path → the bare value, for each secret inside a validated value."""
    from pydantic import BaseModel, SecretBytes, SecretStr

    if isinstance(value, SecretStr | SecretBytes):
        bare = value.get_secret_value()
        return {path: bare.decode("latin-1") if isinstance(bare, bytes) else bare}
    if isinstance(value, BaseModel):
        return _of_model(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _of_dataclass(value, path)
    found: dict[tuple[str, ...], Any] = {}
    if isinstance(value, dict):
        for name, item in value.items():
            found |= secret_parts(item, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            found |= secret_parts(item, (*path, str(place)))
    return found


def _of_model(value: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, info in type(value).model_fields.items():
        here = (*path, info.serialization_alias or info.alias or name)
        item = getattr(value, name)
        if is_marked(info.metadata):
            found[here] = bare(item)
        else:
            found |= secret_parts(item, here)
    return found


def _of_dataclass(value: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    hints = get_type_hints(type(value), include_extras=True)
    for each in dataclasses.fields(value):
        item = getattr(value, each.name)
        if is_marked(getattr(hints.get(each.name), "__metadata__", ())):
            found[*path, each.name] = bare(item)
        else:
            found |= secret_parts(item, (*path, each.name))
    return found


def bare(item: Any) -> Any:
    """The value behind a `SecretStr`, or the value itself."""
    get = getattr(item, "get_secret_value", None)
    return get() if callable(get) else item


def path_text(path: tuple[str, ...]) -> str:
    """A path as the store keeps it."""
    return "/".join(escaped(part) for part in path)


def put_back(tree: Any, path: tuple[str, ...], bare: Any) -> None:
    """Write the bare secret over its mask in a dumped value."""
    *way, last = path
    for part in way:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    tree[int(last) if isinstance(tree, list) else last] = bare
