"""A death notice: opens the store, ends a dead session, recovers its jobs, exits.

The guardian starts this process with the facts in an environment variable.
"""

import json
import os

from limpet import log
from limpet.domain.errors import LimpetError
from limpet.log.output import exit_process, start_log
from limpet.maintenance.sweeper import recover_all
from limpet.storage.registry import open_store
from limpet.worker.supervisor import death


def main() -> int:
    notice = json.loads(os.environ.pop("LIMPET_NOTICE"))
    start_log(notice["style"], notice["level"])
    store = open_store(notice["url"])
    try:
        cause = death.of_supervisor(
            notice["code"], notice["frozen"], notice["limit"], notice["stopping"]
        )
        store.end(notice["session"], cause)
        recover_all(store, notice["session"], cause)
    except LimpetError as error:
        # In the end the lease runs out; until then another worker may find the session lock free.
        log.emit("notice_failed", session=notice["session"], error=error)
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    exit_process(main())
