"""What a server keeps when it crashes, by its configuration, in a sentence."""

from limpet.domain.errors import StoreError
from limpet.storage.redis.connection import facts_of
from limpet.storage.redis.link import RedisLink

_FSYNC = {
    "always": "every write is on the disk before it is answered",
    # During a sync the server answers writes that it has not passed to the system yet, up to 2 s.
    "everysec": "a crash of the server or of the machine may lose the last two seconds",
    "no": "a crash of the machine may lose what the system has not written yet",
}


def engine_and_durability(link: RedisLink) -> tuple[str, str]:
    """The engine of the server, and its durability as it is configured now."""
    facts = facts_of(link.execute("INFO"))
    name = "Valkey" if "valkey_version" in facts else "Redis"
    version = facts.get("valkey_version") or facts.get("redis_version", "")
    engine = f"{name} {version}".strip()
    if link.location.kind in ("sentinel", "cluster"):
        engine += f", {link.location.kind}"
    parts = [_disk(link, facts)]
    replicas = int(facts.get("connected_slaves", "0"))
    if replicas:
        plural = "s" if replicas > 1 else ""
        parts.append(
            f"{replicas} replica{plural}, asynchronous: a failover may lose the last moments"
        )
    return engine, "; ".join(parts)


def _disk(link: RedisLink, facts: dict[str, str]) -> str:
    if facts.get("aof_enabled") == "1":
        fsync = _setting(link, "appendfsync")
        return f"AOF, appendfsync {fsync or 'unknown'}" + (
            f": {_FSYNC[fsync]}" if fsync in _FSYNC else ""
        )
    save = _setting(link, "save")
    if save:
        return f"snapshots only (save {save}): a crash loses what came after the last one"
    if save is None:
        return "no AOF, and whether the server makes snapshots is not known"
    return "memory only: no AOF and no snapshots; a restart of the server loses every job"


def _setting(link: RedisLink, name: str) -> str | None:
    """A setting of the server; None where it may not be read, as on many hosted servers."""
    try:
        found = link.execute("CONFIG", "GET", name)
    except StoreError:
        return None
    return found[1].decode() if len(found) > 1 else None
