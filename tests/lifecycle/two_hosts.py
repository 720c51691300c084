"""Two hosts, one store, and a network between them that fails in one of many ways.

    python -m lifecycle.two_hosts --store redis --lease 5 --fault cut [--seconds 60]

with `tests` on the Python path, by root on Linux; prints what it found as JSON. The first host runs
the jobs, then its line fails. No two runs of a job may overlap; where the line is cut, the second
host has the jobs within the lease, and once the line is mended the first host goes on working.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lifecycle.fabric import CUT, GOOD, Fabric, Way, both
from lifecycle.hosts import Host, alone, why_not
from lifecycle.intervals import overlaps
from lifecycle.modes import BEST, Case
from lifecycle.orphans import troubles
from lifecycle.place import PATIENCE_SECONDS, Handle, Place, allowance
from lifecycle.tasks import quick, steady, steady_sync
from lifecycle.tree import Settings, Worker
from machine import crowded
from servers import PostgresServer, RedisServer

from limpet.domain.state import State

STORE, FIRST, SECOND = 0, 1, 2
# A worker that does nothing, with a lease so long that it would show if it counted for others.
IDLE = Settings(lease=600.0, queues=("idle",), lanes=1, async_jobs=1)
TRUSTING = "host all all all trust\n"
# A line of which the issue says that a lease of 5 s must survive it: there and back, each way.
SLOW_SECONDS, LOSS = 0.3, 0.05
FLAP_SECONDS = 1.0
QUICK_EVERY_SECONDS = 0.5


@dataclass
class Found:
    """What a run found, and every trouble."""

    store: str
    lease: float
    fault: str
    seconds: float = 0.0
    overlaps: int = 0
    recovery_seconds: float | None = None
    after_renewal_seconds: float | None = None
    sessions_lost: int = 0
    quick_jobs: int = 0
    packets_lost: int = 0
    allowed_seconds: float = 0.0
    troubles: list[str] = field(default_factory=list)


@dataclass
class Scene:
    """The store, the hosts and their workers."""

    place: Place
    fabric: Fabric
    hosts: dict[int, Host]
    workers: dict[int, Worker]

    def line(self, way: Way, back: Way | None = None, *hosts: int) -> None:
        """What becomes of what these hosts send to the store, and of what it answers."""
        for number in hosts or (FIRST,):
            self.fabric.set(number, STORE, way, back)

    def sessions_lost(self) -> int:
        """How many sessions of the workers on the hosts ended before their worker."""
        names = {self.hosts[number].name for number in self.workers}
        every = self.place.store.sessions(with_dead=True)
        return sum(each.name in names for each in every) - len(self.workers)


@contextmanager
def scene(store: str, lease: float, seed: int) -> Iterator[Scene]:
    """A server, two hosts with a worker each, an idle worker beside; all gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="limpet-hosts-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = _server(store, folder)
        stack.callback(server.kill)
        server.start()
        fabric = Fabric(seed)
        stack.callback(fabric.close)
        home = fabric.attach(STORE, "/proc/self/ns/net")
        os.umask(0)
        place = Place.make(Case(BEST, store), server.url, server.url.replace("127.0.0.1", home, 1))
        stack.callback(place.clear)
        stack.enter_context(_described(place))
        hosts = {number: Host(fabric, number, folder) for number in (FIRST, SECOND)}
        for host in hosts.values():
            stack.callback(host.close)
        idle = place.begin_worker("idle", IDLE)
        settings = {
            number: Settings(lease=lease, queues=("default", f"only{number}"), async_jobs=8)
            for number in hosts
        }
        made = Scene(place, fabric, hosts, {})
        for number, host in hosts.items():
            made.workers[number] = host.begin_worker(place, settings[number])
            _wait_for(place, made.workers[number])
            if number == FIRST:
                begin_jobs(place)
        _wait_for(place, idle)
        yield made


def _wait_for(place: Place, worker: Worker) -> None:
    """Until it has a session; several scenes at once make a start slow."""

    def has_registered() -> bool:
        return any(each.name == worker.name for each in place.store.sessions())

    place.until(has_registered, PATIENCE_SECONDS * crowded(), f"{worker.name} has a session")


@contextmanager
def _described(place: Place) -> Iterator[None]:
    """Tell what there is if something goes wrong, or if somebody wants to read it."""
    try:
        yield
    except BaseException:
        print(*place.describe(), sep="\n", file=sys.stderr)
        raise
    if os.environ.get("LIMPET_TEST_LOGS"):
        for worker in place.workers:
            print(f"--- {worker.name}", worker.log, sep="\n", file=sys.stderr)


JOBS: list[Handle] = []


def begin_jobs(place: Place) -> None:
    """Jobs that run until they are told to end, on the only host that is there."""
    JOBS[:] = [steady.enqueue(word="over") for _ in range(3)] + [steady_sync.enqueue(word="over")]
    place.until_begun(*JOBS, seconds=PATIENCE_SECONDS * crowded())
    place.until_known(*JOBS)


def _server(store: str, folder: Path) -> RedisServer | PostgresServer:
    if store == "postgres":
        rules = folder / "hba.conf"
        rules.write_text(TRUSTING)
        return PostgresServer(folder / "server", listen_addresses="*", hba_file=str(rules))
    return RedisServer(folder / "server", "--bind", "0.0.0.0", "--protected-mode", "no", kind=store)


def _cut(way: Way, back: Way) -> Callable[[Scene, Found, float], None]:
    def run(made: Scene, found: Found, seconds: float) -> None:
        """The first host is cut off until the second has its jobs, then comes back."""
        place = made.place
        other = made.workers[SECOND]
        place.until(
            lambda: "is ready" in other.log, PATIENCE_SECONDS * crowded(), "the other is ready"
        )
        holder = place.session(made.workers[FIRST])
        cut = time.time()
        made.line(way, back)
        place.until_lost(*JOBS, seconds=3 * found.lease * crowded())
        place.until_begun(*JOBS, times=2, seconds=PATIENCE_SECONDS * crowded())
        lost = max(place.losses(job)[0].at for job in JOBS) / 1e6
        found.recovery_seconds = lost - cut
        first = place.store.sessions(with_dead=True)
        # Where only answers are lost, renewals arrive for a while, and each of them gives a lease.
        renewed = next(each.renewed_at for each in first if each.id == holder.id) / 1e6
        found.after_renewal_seconds = lost - renewed
        found.allowed_seconds = found.lease + allowance()
        since = lost - (max(cut, renewed) if back.cut and not way.cut else cut)
        if since > found.allowed_seconds:
            found.troubles.append(f"recovered after {since:.2f} s")
        time.sleep(seconds)
        made.line(GOOD)

    return run


def _bad(way: Way) -> Callable[[Scene, Found, float], None]:
    def run(made: Scene, found: Found, seconds: float) -> None:
        """The lines of both hosts are bad for some time, under small jobs."""
        made.line(way, None, FIRST, SECOND)
        until = time.monotonic() + seconds
        handles = []
        while time.monotonic() < until:
            handles.append(quick.enqueue(number=7))
            time.sleep(QUICK_EVERY_SECONDS)
        made.line(GOOD, None, FIRST, SECOND)
        made.place.until_final(handles, PATIENCE_SECONDS * crowded())
        found.quick_jobs = len(handles)

    return run


def _flapping(made: Scene, found: Found, seconds: float) -> None:
    """The line of the first host comes and goes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        made.line(CUT)
        time.sleep(FLAP_SECONDS)
        made.line(GOOD)
        time.sleep(FLAP_SECONDS)


FAULTS: dict[str, Callable[[Scene, Found, float], None]] = {
    "cut": _cut(CUT, CUT),
    "requests lost": _cut(CUT, GOOD),
    "answers lost": _cut(GOOD, CUT),
    "slow": _bad(both(SLOW_SECONDS, 0.0)),
    "lossy": _bad(both(SLOW_SECONDS, LOSS)),
    "slower and lossy": _bad(both(2 * SLOW_SECONDS, LOSS)),
    "flapping": _flapping,
}


def prove(store: str, lease: float, fault: str, seconds: float, seed: int = 0) -> Found:
    """Let the network fail in this way, and judge what is left."""
    found = Found(store, lease, fault, seconds)
    with scene(store, lease, seed) as made:
        place = made.place
        try:
            FAULTS[fault](made, found, seconds)
            # The host that was cut off goes on: this queue is served nowhere else.
            healed = quick.using(queue=f"only{FIRST}").enqueue(number=9)
            place.until_final([healed], 3 * lease + 10 * crowded())
            found.sessions_lost = made.sessions_lost()
            place.say("over")
            place.until_final(JOBS, PATIENCE_SECONDS * crowded())
            left = [job.id for job in JOBS if place.job(job).state is not State.SUCCEEDED]
            found.troubles += [f"job {each} has not succeeded" for each in left]
            place.stop()
        except AssertionError as error:
            found.troubles.append(str(error))
        found.overlaps = len(overlaps(place.records()))
        found.packets_lost = made.fabric.lost
        found.troubles += troubles(place)
        if found.troubles:
            print(*place.describe(), sep="\n", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--lease", type=float, required=True)
    parser.add_argument("--fault", choices=FAULTS, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if reason := why_not():
        print(json.dumps({"troubles": [f"no hosts here: {reason}"]}))
        return 1
    alone()
    found = prove(given.store, given.lease, given.fault, given.seconds, given.seed)
    print(json.dumps(asdict(found)))
    return 1 if found.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
