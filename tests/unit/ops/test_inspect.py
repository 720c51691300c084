"""What `--json` tells of a job: its secrets are masked, and the facts around them are not."""

from limpet.domain.cause import Raised
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Fail
from limpet.ops.inspect import show_job
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.registry import open_store


def test_masking_a_secret_spoils_no_fact_of_the_timeline() -> None:
    ids, year = IdSource(SystemClock()), SystemClock().wall() // 31_556_952_000_000 + 1970
    store = open_store("sqlite://")
    session = NewSession(ids.new(), SessionKind.WORKER, "w", "h", 1, tasks=frozenset({"pay"}))
    tasks = store.register(session).tasks
    args = f'{{"card": {{"year": {year}, "words": ["failed", "Raised"]}}}}'
    job = NewJob(ids.new(), "pay", args, secrets=("card",))
    store.enqueue([job])
    want = Want((Pool(tasks, {ANY_QUEUE: 1}, 1),))
    (claimed,) = store.exchange(session.id, 1, want=want).claimed
    error = Raised("ValueError", f"the card of {year} failed", f"line of {year}")
    store.exchange(session.id, 2, [Fail(claimed.lease, error)])
    shown = show_job(store, job.id)
    store.close()
    assert shown.args == {"card": "***"}
    last = shown.timeline[-1]
    assert (last.event, last.at[:4]) == ("failed", str(year))
    for cause in (shown.error, last.cause):
        assert cause is not None
        assert (cause.kind, cause.type) == ("Raised", "ValueError")
        assert (cause.message, cause.traceback) == ("the card of *** ***", "line of ***")
