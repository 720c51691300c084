"""Jobs of one key, as the tests of turns make them."""

from typing import Any

from contract.driver import new_job

from limpet.storage.contract.store import Store

KEY = "customer:42"
WAITS = f"waits for its turn of key {KEY}"


def keyed(store: Store, number: int, **fields: Any) -> list[str]:
    """Jobs of one key, enqueued together."""
    jobs = [new_job(**{"key": KEY, **fields}) for _ in range(number)]
    store.enqueue(jobs)
    return [job.id for job in jobs]
