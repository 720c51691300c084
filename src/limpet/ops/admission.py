"""Why a job that weighs something does not begin: what each host has to say of it."""

import msgspec

from limpet.domain.assessment import Waiting
from limpet.domain.clock import SystemClock
from limpet.domain.errors import InvalidOption
from limpet.domain.host import Host
from limpet.domain.job import Job
from limpet.domain.weight import Weight, weight_of
from limpet.gate.gauge import GivenAway, all_given, waits_for
from limpet.gate.published import assess_published
from limpet.host.boot import boot_id
from limpet.ops.reason import GateReason, Kind, WeightAnswer
from limpet.storage.contract.gating import GateVerbs

# How many hosts are named in a sentence; the facts have all of them.
MOST_NAMED = 5

_WAITING = "waiting: "


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


def kept_off(store: GateVerbs, job: Job, weight: Weight, now: int) -> GateReason | None:
    """Why no host takes a ready job of that weight; None if one would."""
    hosts = store.hosts()
    if not hosts:
        text = "no host says what it has room for; one does soon after a worker has started there"
        return _reason(_WAITING + text, weight, {})
    given = all_given(store.permits(), store.reservations())
    every: list[Waiting] = []
    reasons: dict[str, str] = {}
    for host in hosts:
        answer = _asked(host, given.get(host.server, GivenAway()), weight, job.id, now)
        if answer is None:
            return None
        every.append(answer)
        reasons[host.server] = answer.reason.removeprefix(_WAITING)
    told = "; ".join(list(reasons.values())[:MOST_NAMED])
    if len(reasons) > MOST_NAMED:
        told += f"; and {len(reasons) - MOST_NAMED} hosts more"
    if all(each.never for each in every):
        return _reason(f"no host can carry it: {told}", weight, reasons)
    reserved = {server: each.reserved for server, each in given.items() if each.reserved}
    own = next((server for server, each in reserved.items() if each.holder == job.id), None)
    if own is not None:
        told += f"; {own} is reserved for it"
    return _reason(_WAITING + told, weight, reasons, own)


def _reason(
    text: str, weight: Weight, hosts: dict[str, str], reserved: str | None = None
) -> GateReason:
    return GateReason(
        kind=Kind.GATE,
        text=text,
        weight=WeightAnswer(
            cores=weight.cpu or None,
            memory_bytes=weight.memory or None,
            heavy=weight.heavy or None,
        ),
        hosts=hosts,
        reserved=msgspec.UNSET if reserved is None else reserved,
    )


def _asked(host: Host, given: GivenAway, weight: Weight, job: str, now: int) -> Waiting | None:
    """What one host would say; None if it would take the job."""
    found = assess_published(host, now, boot_id(), SystemClock().boot())
    if found is None:
        return Waiting(f"{host.server} says what this version cannot read")
    return waits_for(found, given, weight, now, job)
