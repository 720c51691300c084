"""Reads what is packed beside a job's row, each field as far as it can be read."""

from collections.abc import Callable
from typing import Any

import msgspec

from limpet.domain.job import EVERYTHING, Progress
from limpet.storage.records.unreadable import NONSENSE, or_else

unpacked = msgspec.msgpack.decode


def word(value: bytes) -> str:
    """Bytes of the store as text; bytes that are not UTF-8 are shown as such."""
    return value.decode(errors="replace")


def extra_of(job: str, kept: bytes | None, faults: list[str]) -> tuple[Any, ...]:
    """Key, unique, parent, root, weight class, rules."""
    return or_else("job", job, "extra", _six, kept, _NONE, faults) if kept else _NONE


_NONE = (None,) * 6
_Word = str | None
_Words = tuple[_Word, _Word, _Word, _Word, _Word]


def _six(kept: bytes) -> tuple[Any, ...]:
    *words, rules = unpacked(kept)
    return (*msgspec.convert(words, _Words), rules)


def payload_of(
    job: str, blob: bytes | None, faults: list[str]
) -> tuple[int, str, str, tuple[str, ...]]:
    """Version, arguments, options and secrets of a job, each as far as it can be read."""
    try:
        version, args, options, secrets, _ = _payload_decoder(b"\x95" + (blob or b""))
    except NONSENSE:  # field by field
        parts: list[Any] = or_else(
            "job", job, "payload", five, blob or b"", [1, "", "", None, None]
        )
        version = or_else("job", job, "payload_version", _int, parts[0], 1, faults)
        args = or_else("job", job, "arguments", _str, parts[1], "", faults)
        options = or_else("job", job, "options", _str, parts[2], "{}", faults)
        secrets = or_else("job", job, "secrets", _strs, parts[3], (EVERYTHING,), faults)
    return version, args, options, secrets


_Payload = tuple[int, str, str, tuple[str, ...], Any]
_payload_decoder: Callable[[bytes], _Payload] = msgspec.msgpack.Decoder(_Payload).decode


def _int(value: Any) -> int:
    return msgspec.convert(value, int)


def _str(value: Any) -> str:
    return msgspec.convert(value, str)


def _strs(value: Any) -> tuple[str, ...]:
    return msgspec.convert(value, tuple[str, ...])


def five(blob: bytes) -> list[Any]:
    # Values one after the other; a list of them is the same with one byte in front.
    return msgspec.msgpack.decode(b"\x95" + blob, type=list[Any])


def packed_paths(job: str, kept: bytes | None, faults: list[str]) -> tuple[str, ...]:
    if not kept:
        return ()
    return or_else("job", job, "result_secrets", _paths_decoder, kept, (EVERYTHING,), faults)


_paths_decoder = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def progress_of(job: str, kept: bytes | None, token: int, faults: list[str]) -> Progress | None:
    if kept is None:
        return None
    found = or_else("job", job, "progress", _progress_decoder, kept, None, faults)
    # Progress belongs to the attempt that reported it.
    return Progress(*found[1:]) if found is not None and found[0] == token else None


def _progress_decoder(kept: bytes) -> tuple[int, float, float | None, str, int] | None:
    return msgspec.msgpack.decode(kept, type=tuple[int, float, float | None, str, int])
