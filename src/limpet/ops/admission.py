"""Why no host takes a weighted job: the reason of each host."""

import msgspec

from limpet.domain.assessment import Waiting
from limpet.domain.clock import SystemClock
from limpet.domain.errors import InvalidOption
from limpet.domain.host import Host
from limpet.domain.job import Job
from limpet.domain.plural import number_of
from limpet.domain.weight import Weight, weight_of
from limpet.gate.gauge import GivenAway, all_given, waits_for
from limpet.gate.published import assess_published
from limpet.host.boot import boot_id
from limpet.ops.reason import GateReason, Kind, WeightAnswer
from limpet.storage.contract.gating import GateVerbs

# How many hosts a sentence names; the `hosts` of the answer have all of them.
MOST_NAMED = 5

_WAITING = "waiting: "


def weight_in(job: Job) -> Weight | None:
    """What a job weighs, by the options it was enqueued with; None for a light one.

    The worker that claims it goes by its own code, which may declare another weight by now.
    """
    if '"weight"' not in job.options:
        return None
    try:
        record = msgspec.json.decode(job.options, type=dict).get("weight")
        return None if record is None else weight_of(record)
    except (msgspec.MsgspecError, InvalidOption, AttributeError):
        return None  # written by a version to which "weight" means something else


def kept_off(store: GateVerbs, job: Job, weight: Weight, now: int) -> GateReason | None:
    """Why no host takes a ready job of that weight; None if one would take it."""
    hosts = store.hosts()
    if not hosts:
        text = "no host reports what it has room for; one does soon after a worker starts there"
        return _reason(_WAITING + text, weight, {})
    given = all_given(store.permits(), store.reservations())
    waitings: list[Waiting] = []
    reasons: dict[str, str] = {}
    for host in hosts:
        waiting = _waiting_on(host, given.get(host.server, GivenAway()), weight, job.id, now)
        if waiting is None:
            return None
        waitings.append(waiting)
        reasons[host.server] = waiting.reason.removeprefix(_WAITING)
    named = "; ".join(list(reasons.values())[:MOST_NAMED])
    if len(reasons) > MOST_NAMED:
        named += f"; and {number_of(len(reasons) - MOST_NAMED, 'more host')}"
    if all(waiting.never for waiting in waitings):
        return _reason(f"no host can carry it: {named}", weight, reasons)
    reserved = {server: away.reserved for server, away in given.items() if away.reserved}
    own = next((server for server, kept in reserved.items() if kept.holder == job.id), None)
    if own is not None:
        named += f"; {own} is reserved for it"
    return _reason(_WAITING + named, weight, reasons, own)


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


def _waiting_on(host: Host, given: GivenAway, weight: Weight, job: str, now: int) -> Waiting | None:
    """Why one host would not take the job; None if it would."""
    found = assess_published(host, now, boot_id(), SystemClock().boot())
    if found is None:
        return Waiting(f"what {host.server} reports cannot be read by this version of Limpet")
    return waits_for(found, given, weight, now, job)
