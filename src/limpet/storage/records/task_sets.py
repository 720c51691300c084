"""Sets of tasks, named by a digest."""

import hashlib
from collections.abc import Iterable


def tasks_digest(tasks: Iterable[str]) -> str:
    """The digest under which a set of tasks is kept; equal sets have equal digests."""
    text = "\n".join(sorted(tasks))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
