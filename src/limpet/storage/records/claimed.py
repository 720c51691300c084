"""Claimed jobs whose stored fields may be unreadable.

Such jobs are claimed like others, so that the batch goes on and a person sees them: the holder
quarantines them, and they run once they are repaired.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from limpet.domain.job import EVERYTHING, ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.storage.records.unreadable import NONSENSE, why


def claimed_of(lease: Lease, task: str, queue: str, *about: Any) -> ClaimedJob:
    """A claimed job, whatever its fields hold. `about`: the fields in the order of `ClaimedJob`;
    the paths of secrets come as a list or as JSON.
    """
    attempt, round_, counters, suspect, last_run, version, args, options, secrets, deadline = about
    faults: list[str] = []

    def read(name: str, convert: Callable[[Any], Any], value: Any, otherwise: Any) -> Any:
        try:
            return convert(value)
        except NONSENSE as error:
            faults.append(f"its {name} cannot be read ({why(error)})")
            return otherwise

    return ClaimedJob(
        lease,
        task,
        queue,
        attempt,
        round_,
        Counters(*counters),
        bool(suspect),
        bool(last_run),
        read("payload_version", _number, version, 1),
        read("arguments", _text, args, "null"),
        read("options", _text, options, "{}"),
        read("secrets", _paths, secrets, (EVERYTHING,)),
        deadline,
        unreadable="; ".join(faults),
    )


def _number(value: Any) -> int:
    return msgspec.convert(value, int)


def _text(value: str | bytes | None) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if value is None:
        raise ValueError("it is not there")
    return msgspec.convert(value, str)


def _paths(value: str | bytes | Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        return msgspec.json.decode(value, type=tuple[str, ...])
    if value is None:
        raise ValueError("it is not there")
    return msgspec.convert(value, tuple[str, ...])
