"""The steps of a store's move to another place."""

from limpet.storage.contract.relocation import Relocated, Relocation, need_of, relocation_of
from limpet.storage.redis.link import RedisLink


def relocation(link: RedisLink) -> tuple[Relocation | None, str]:
    """The store's part in a move; see `MoveVerbs.relocation`."""
    _, record, cursor = link.call("relocation")
    return relocation_of(record), cursor.decode()


def relocate(link: RedisLink, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """One step of a move; see `MoveVerbs.relocate`."""
    _, done, found, running, jobs, sessions = link.call(
        "relocate",
        was.text() if was else "",
        wanted.text() if wanted else "",
        (wanted.closes if wanted else None) or "",
        need_of(was, wanted),
    )
    return Relocated(bool(done), relocation_of(found), running, jobs, sessions)
