"""Two hosts and a network between them that is cut: the short run of what `make prove` does.

Where namespaces may not be made there are no hosts of that kind. Then two workers reach the server
through a proxy each, the lock of the first is hidden from the second, and its proxy falls silent.
"""

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from lifecycle.hosts import why_not
from lifecycle.modes import TESTS
from lifecycle.network import hide_lock, net
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, Handle, allowance
from lifecycle.tasks import quick, steady
from lifecycle.tree import Settings
from machine import crowded
from servers.proxy import Proxy

pytestmark = pytest.mark.timeout(150)

KINDS = ("redis", "postgres")
LEASE = 3.0


def test_host_that_is_cut_off_overlaps_with_nobody_and_comes_back(
    request: pytest.FixtureRequest,
) -> None:
    if why_not() is None:
        _on_hosts()
    else:
        for kind in KINDS:
            _through_proxies(kind, request)


def _on_hosts() -> None:
    """On all stores at the same time: they mostly wait."""
    module = ["-m", "lifecycle.two_hosts", "--fault", "cut", "--seconds", "0"]
    runs = [
        subprocess.Popen(
            [sys.executable, *module, "--store", kind, "--lease", str(LEASE)],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind in KINDS
    ]
    for run in runs:
        said, told = run.communicate()
        found = json.loads(said) if said else {}
        assert found.get("troubles") == [], f"{found}\n{told}"
        assert found["overlaps"] == 0
        assert found["recovery_seconds"] <= found["allowed_seconds"]
        assert found["packets_lost"] > 0


def _through_proxies(kind: str, request: pytest.FixtureRequest) -> None:
    with net(kind, request) as some, closing(Proxy(some.server.port)) as other:
        place = some.place
        settings = Settings(lease=LEASE, queues=("default", "first"))
        first = place.worker(settings=settings)
        job: Handle = steady.enqueue(word="over")
        place.until_begun(job)
        place.until_known(job)
        place.way = other.url(some.server.url, some.server.port)
        second = place.worker(settings=replace(settings, queues=("default",)))
        place.until(lambda: "is ready" in second.log, said="the other is ready")
        hide_lock(first, place)
        some.proxy.hang()
        place.until_lost(job, seconds=LEASE + 4 * allowance())
        place.until_begun(job, times=2)
        some.proxy.pass_on()
        some.proxy.cut()
        healed: Handle = quick.using(queue="first").enqueue(number=9)
        place.until_final([healed], PATIENCE_SECONDS * crowded())
        place.say("over")
        place.until_final([job])
        assert_no_orphans(place)
