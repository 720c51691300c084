"""Why a job that weighs something does not begin: what each host has to say of it."""

from typing import NamedTuple

import msgspec

from limpet.domain.assessment import Waiting
from limpet.domain.clock import SystemClock
from limpet.domain.errors import InvalidOption
from limpet.domain.host import Host
from limpet.domain.job import Job
from limpet.domain.weight import Weight, weight_of
from limpet.host.boot import boot_id
from limpet.host.wire import assess_published
from limpet.ops.gate import Given, all_given, waits_for
from limpet.ops.record import Record
from limpet.storage.gating import GateVerbs

# How many hosts are named in a sentence; the facts have all of them.
MOST_NAMED = 5

_WAITING = "waiting: "


class Kept(NamedTuple):
    """What keeps a job off every host, in words and as plain data."""

    text: str
    facts: Record


def weight_in(job: Job) -> Weight | None:
    """What a job weighs, by what it was handed in with; None for a light one.

    The worker that claims it goes by its own code, which may say something else by now.
    """
    if '"weight"' not in job.options:
        return None
    try:
        record = msgspec.json.decode(job.options, type=dict).get("weight")
        return None if record is None else weight_of(record)
    except (msgspec.MsgspecError, InvalidOption, AttributeError):
        return None  # written by a version that means something else by that name


def kept_off(store: GateVerbs, job: Job, weight: Weight, now: int) -> Kept | None:
    """Why no host takes a ready job of that weight; None if one would."""
    hosts = store.hosts()
    facts: Record = {"weight": weight.record(), "hosts": {}}
    if not hosts:
        text = "no host says what it has room for; one does soon after a worker has started there"
        return Kept(_WAITING + text, facts)
    given = all_given(store.permits(), store.reservations())
    every: list[Waiting] = []
    for host in hosts:
        answer = _asked(host, given.get(host.server, Given()), weight, job.id, now)
        if answer is None:
            return None
        every.append(answer)
        facts["hosts"][host.server] = answer.reason.removeprefix(_WAITING)
    reasons = list(facts["hosts"].values())
    told = "; ".join(reasons[:MOST_NAMED])
    if len(reasons) > MOST_NAMED:
        told += f"; and {len(reasons) - MOST_NAMED} hosts more"
    if all(each.never for each in every):
        return Kept(f"no host can carry it: {told}", facts)
    reserved = {server: each.reserved for server, each in given.items() if each.reserved}
    own = [server for server, each in reserved.items() if each.holder == job.id]
    if own:
        facts["reserved"] = own[0]
        told += f"; {own[0]} is reserved for it"
    return Kept(_WAITING + told, facts)


def _asked(host: Host, given: Given, weight: Weight, job: str, now: int) -> Waiting | None:
    """What one host would say; None if it would take the job."""
    found = assess_published(host, now, boot_id(), SystemClock().boot())
    if found is None:
        return Waiting(f"{host.server} says what this version cannot read")
    return waits_for(found, given, weight, now, job)
