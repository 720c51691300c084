"""A program that asks for a permit, tells when it has it, and holds it for a while.

`holder.py URL CPU LEASE`: says "ready", begins at the next line, says "held", ends at the next.
"""

import sys
from datetime import timedelta

from limpet.domain.weight import Weight
from limpet.gate.permits.permit import Permit
from limpet.gate.this_host import here
from limpet.storage.registry import open_store


def main(url: str, cpu: str, lease: str) -> None:
    store = open_store(url)
    store.hosts()
    permit = Permit(store, here, Weight(float(cpu)), lease=timedelta(seconds=float(lease)))
    print("ready", flush=True)
    sys.stdin.readline()
    with permit:
        print("held", flush=True)
        sys.stdin.readline()
        permit.check()
    print("left", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
