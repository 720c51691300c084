"""Reads the arguments of a job as a person types them."""

import json
import sys
from typing import Any

from limpet.domain.errors import InvalidOption


def json_object(text: str) -> dict[str, Any]:
    """A JSON object; "-" reads it from the input."""
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except RecursionError as error:
        raise InvalidOption("the arguments are nested too deeply; make them flatter.") from error
    except ValueError as error:
        raise InvalidOption(f"the arguments are not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidOption(
            'the arguments are JSON but not an object; name them, as in \'{"to": "a@b.c"}\'.'
        )
    return value


def named_value(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidOption(f"{text!r}: write NAME=VALUE, as in to=a@b.c or count=5.")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
