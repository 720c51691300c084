"""What the store is: its server, and how durable its writes are."""

from limpet.storage.contract.answers import StoreInfo
from limpet.storage.postgres.location import Location
from limpet.storage.postgres.transaction import Transaction

# A transaction that is open for longer keeps dead rows from being cleaned away.
_OLD_SNAPSHOT_SECONDS = 30


def info(tx: Transaction, location: Location) -> StoreInfo:
    """Describe the store; see `InspectVerbs.info`."""
    row = tx.one("inspect", "store")
    settings = tx.one("inspect", "durability")
    assert settings is not None
    durability = _durability(*settings[:5])
    old = old_snapshot(tx)
    return StoreInfo(
        url=location.url,
        durability=f"{durability}; {old}" if old else durability,
        schema_version=row[1] if row else 0,
        epoch=row[0] if row else "",
        engine=f"PostgreSQL {settings[5]}",
        fails_over=True,
    )


def _durability(commit: str, fsync: str, pages: str, standbys: str, replicas: int) -> str:
    if fsync == "off" or pages == "off":
        what = "a power cut or a crash of the machine may destroy everything"
    elif commit == "off":
        what = "survives a crash; the last moments before one may be lost"
    elif commit == "local" or not standbys:
        what = (
            "survives a crash and a power cut; a standby that takes over may lack the last moments"
        )
    else:
        what = "survives a crash, a power cut and the loss of the primary"
    names = f"synchronous_commit={commit}, fsync={fsync}, full_page_writes={pages}"
    return f"{what} ({names}, {replicas} replicas)"


def old_snapshot(tx: Transaction) -> str | None:
    """A sentence about a transaction that is open so long that it slows down every claim."""
    row = tx.one("inspect", "old_snapshot", seconds=_OLD_SNAPSHOT_SECONDS)
    if row is None or row[0] is None:
        return None
    return (
        f"a transaction of process {row[2]} has been open for {row[0]} s and keeps finished rows "
        f"from being cleaned away; end it, or claims get slower"
    )
