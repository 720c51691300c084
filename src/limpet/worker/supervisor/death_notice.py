"""A death notice: opens the store, says that a session is dead, takes back its jobs, exits."""

import json
import os

from limpet import log
from limpet.domain.errors import LimpetError
from limpet.log.output import leave, speak
from limpet.maintenance.sweeper import recover_all
from limpet.storage.registry import open_store
from limpet.worker.supervisor import death


def main() -> int:
    told = json.loads(os.environ.pop("LIMPET_NOTICE"))
    speak(told["style"], told["level"])
    store = open_store(told["url"])
    try:
        cause = death.of_supervisor(told["code"], told["frozen"], told["limit"], told["stopping"])
        store.end(told["session"], cause)
        recover_all(store, told["session"], cause)
    except LimpetError as error:
        # The lease will tell in the end; until then a neighbour may find the locks free.
        log.emit("notice_failed", session=told["session"], error=error)
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    leave(main())
