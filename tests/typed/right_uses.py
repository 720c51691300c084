"""Thirty right uses of the API, each marked with its number. mypy must refuse none."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from limpet import (
    App,
    AsyncTask,
    Breaker,
    Child,
    Context,
    Flow,
    GroupHandle,
    JobHandle,
    QueueLimit,
    Relaunch,
    Retry,
    ScanReport,
    State,
    SyncTask,
    Task,
    Unique,
    Weight,
)

app = App("sqlite://", queues={"email": QueueLimit(100, "wait", "5s", rate="100/m")})  # right 1


@app.task  # right 2
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task(  # right 3
    name="send",
    queue="email",
    priority=5,
    timeout="60s",
    stall_after=timedelta(seconds=20),
    retry=Retry(attempts=3, backoff=["1s", "1m"], retry_on=(OSError, ValueError)),
    relaunch=Relaunch("1h", unless=KeyError),
    breaker=Breaker(failure_rate=0.3, window="2m"),
    isolation="process",
    version=2,
)
async def send(ctx: Context, to: str) -> str:
    ctx.progress(1, 2, note="half")
    return to


@app.task(weight=Weight(cpu=0.5, memory="2GiB"), on_pressure="release")  # right 4
def crunch(ctx: Context, number: int) -> None: ...


@app.every("15m", catch_up="all", jitter=5)  # right 5
@app.task(heavy=True)
def tidy() -> None: ...


@app.cron("0 3 * * *", tz="Europe/Berlin", args={"a": 1}, id="nightly")  # right 6
def nightly(a: int) -> None: ...


@app.scanner(cron="*/5 * * * *", queue="ops", timeout="1m")  # right 7
def check(ctx: Context) -> ScanReport:
    return ScanReport(found=1)


@app.scanner(every="15m", name="look")  # right 8
async def look() -> ScanReport:
    return ScanReport()


@app.on_start  # right 9
async def connect() -> None: ...


@app.middleware  # right 10
async def traced(ctx: Context) -> AsyncIterator[None]:
    yield


@app.middleware  # right 11
def timed(ctx: Context) -> Iterator[None]:
    yield


@send.upgrade(from_version=1)  # right 12
def renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


assert_type(add(1, 2), int)  # right 13
assert_type(send.enqueue(to="a@b.c").result(), str)  # right 14
assert_type(check, SyncTask[[], ScanReport])  # right 15
assert_type(look, AsyncTask[[], ScanReport])
assert_type(tidy(), None)  # right 16

job = add.using(delay="10m", key="customer:42", key_limit=2, key_rate="5/s").enqueue(1, b=2)
assert_type(job, JobHandle[int])  # right 17
assert_type(job.result(timeout="30s"), int)  # right 18
at = datetime.now(UTC) + timedelta(hours=1)
add.using(deadline=at, expires=30, unique=Unique("a", "10m"), key_order=None).enqueue(1)  # right 19
app.enqueue_many([add.call(n) for n in range(3)])  # right 20
any_task: Task[[str], str] = send  # right 21
flow = app.flow(add.call(1), [Flow(add.call(2), []), Child(add.call(3), failed="skip")])
assert_type(flow, JobHandle[Any])  # right 22
assert_type(app.group([add.call(1), Flow(add.call(2), [])]), GroupHandle)  # right 23
app.batch([add.call(1)], then=add.call(2), failed="keep")  # right 24
app.breaker("stripe", least=5, probe_after="1m")  # right 25
app.queues.limit("email", concurrency=5, rate="100/m bursty", weight=3)  # right 26
app.schedules.upsert("s", add, args={"a": 1}, every="1h", overlap=False)  # right 27


async def main() -> None:
    context: Context | None = None
    assert context is not None
    called: Coroutine[Any, Any, str] = send(context, "a@b.c")
    assert_type(await called, str)  # right 28
    handles = await app.aenqueue_many(add.call(n) for n in range(3))
    assert_type(await handles[0].astate(), State)  # right 29
    assert_type(await (await send.aenqueue("a@b.c")).aresult(), str)  # right 30
    await app.aclose()
