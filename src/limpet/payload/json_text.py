"""Values as JSON text that reads back equal; a value that cannot is refused with the reason.

Tuples are read back as lists, and instances of subclasses of `str`, `int` or `float` as plain ones.
"""

import json
import math
from typing import Any

import msgspec

from limpet.domain.errors import PayloadInvalid

_decode = msgspec.json.Decoder().decode
# Made once: `json.dumps` with options makes a new encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_SCALARS = (str, int, bool, type(None))
_encode_flat = msgspec.json.Encoder().encode
# Most levels of nested lists and objects: every reader takes so many, whatever the recursion limit
# of its process. Pydantic takes the fewest.
MOST_LEVELS = 200
_FLAT, _TEXT = frozenset(_SCALARS), frozenset({str})


def to_text(value: Any, *, what: str) -> str:
    """JSON text of a value made of dicts, lists, texts, numbers, booleans and None."""
    if type(value) is dict and _FLAT.issuperset(map(type, value.values())):
        # Most arguments are flat; this takes a tenth of the time. Errors are raised further below.
        try:
            if _TEXT.issuperset(map(type, value)):
                return _encode_flat(value).decode()
        except ValueError:
            pass
    try:
        _check(value, what, MOST_LEVELS)
        text = _encode(value)
        text.encode()
    except RecursionError:
        raise PayloadInvalid(
            f"{what} is nested too deeply (more than {MOST_LEVELS} levels), or contains "
            f"itself; it cannot be stored as JSON.",
            field=what,
        ) from None
    except UnicodeEncodeError:
        raise PayloadInvalid(
            f"{what} contains half of a surrogate pair, which is not valid text; it cannot be "
            f"stored as JSON.",
            field=what,
        ) from None
    except PayloadInvalid:
        raise
    except ValueError as error:  # a number of thousands of digits, for one
        raise PayloadInvalid(f"{what} cannot be stored as JSON: {error}.", field=what) from None
    return text


def from_text(text: str) -> Any:
    """The value of a JSON text."""
    try:
        return _decode(text)  # a seventh of the time; every job's arguments come this way
    except msgspec.MsgspecError:
        return json.loads(text)  # other writers may use what only this reader takes: NaN, 1e400


def _check(value: Any, path: str, levels: int) -> None:
    """Raise `PayloadInvalid` for what JSON cannot hold; `levels`: the most levels of nesting."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadInvalid(f"{path} is {value}, which JSON cannot hold.", field=path)
    elif isinstance(value, dict):
        if not levels:
            raise RecursionError
        for name, item in value.items():
            if not isinstance(name, str):
                raise PayloadInvalid(
                    f"{path} has the key {name!r}; in JSON every key is a text.", field=path
                )
            _check(item, f"{path}.{name}", levels - 1)
    elif isinstance(value, list | tuple):
        if not levels:
            raise RecursionError
        for place, item in enumerate(value):
            _check(item, f"{path}[{place}]", levels - 1)
    elif not isinstance(value, _SCALARS):
        kind = type(value).__qualname__
        raise PayloadInvalid(
            f"{path} is a {kind}, which cannot be stored as JSON. Annotate the parameter with its "
            f"type (a pydantic model, a dataclass, datetime, …) so that it can be restored, or "
            f"pass plain data.",
            field=path,
        )
