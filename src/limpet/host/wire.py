"""A reading as it is published: JSON, readable by people and by neighbouring versions."""

import msgspec

from limpet.domain.reading import Reading

_DECODER = msgspec.json.Decoder(Reading)


def written(reading: Reading) -> bytes:
    """As it goes to a store."""
    return msgspec.json.encode(reading)


def reading_of(text: bytes | str) -> Reading | None:
    """Read what `written` wrote; what cannot be read is as unknown as what was never told."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
