"""The peers, each with its best settings and the settings for the soonest recovery."""

from engines import POSTGRES, REDIS, SQLITE
from peers.peer import NodePeer, Peer, PythonPeer

BULLMQ = NodePeer(
    "BullMQ",
    REDIS,
    "node bullmq_jobs.js work",
    settings="`concurrency: 100`, `removeOnComplete: true`",
    tight="`lockDuration: 4000`, `stalledInterval: 1000`",
)
CELERY = PythonPeer(
    "Celery",
    REDIS,
    "celery --app peers.celery_jobs worker --pool solo --loglevel ERROR "
    "--without-gossip --without-mingle --without-heartbeat",
    settings="prefetch 64, no results, no rate limits; in bulk: one producer for all calls",
    tight="late ack, reject on lost worker, visibility timeout 8 s, looked for each second",
    plain="celery --app peers.celery_jobs worker --loglevel ERROR",
)
DRAMATIQ = PythonPeer(
    "Dramatiq",
    REDIS,
    "dramatiq peers.dramatiq_jobs --processes 1 --threads 16 --log-file /dev/null",
    tight="`heartbeat_timeout=4000`, `maintenance_chance=1000000`",
    bulk=False,
)
RQ = PythonPeer(
    "RQ",
    REDIS,
    "python -m peers.rq_jobs work",
    settings="`SimpleWorker`, which does not fork, `result_ttl=0`, each call with a `pipeline`, "
    "which makes it one round trip; for recovery `Worker`",
    tight="`maintenance_interval=1`, `job_monitoring_interval=1`, `worker_ttl=30`, `Retry(max=3)`",
)
SAQ = PythonPeer(
    "SAQ",
    REDIS,
    "python -m peers.saq_jobs work",
    settings="concurrency 100, `ttl=-1`, orjson, uvloop; in bulk: `gather` of 1,000 calls",
    tight="sweep each second, `heartbeat=4` which the job gives itself, `retries=5`",
)
ARQ = PythonPeer(
    "arq",
    REDIS,
    "python -m peers.arq_jobs work",
    settings="`max_jobs=200`, `keep_result=0`, `poll_delay=0.01`, `queue_read_limit=1000`, uvloop; "
    "in bulk: `gather` of 500 calls",
    tight="`job_timeout=6`, `poll_delay=0.1`",
)
STREAQ = PythonPeer(
    "streaq",
    REDIS,
    "streaq run peers.streaq_jobs:worker",
    settings="`concurrency=64`, `prefetch=256`, `ttl=0`, `silent=True`, `timeout=None`, uvloop",
    tight="`idle_timeout=4`",
)
TASKIQ = PythonPeer(
    "taskiq",
    REDIS,
    "taskiq worker peers.taskiq_jobs:broker --workers 1 --max-async-tasks 200 --max-prefetch 200 "
    "--log-level ERROR",
    settings="`RedisStreamBroker`, orjson, no results; in bulk: `gather` of 200 calls",
    tight="`idle_timeout=4000`, `unacknowledged_lock_timeout=2`, `xread_block=1000`",
)
HUEY_REDIS = PythonPeer(
    "Huey",
    REDIS,
    "huey_consumer peers.huey_jobs.queue --workers 2 --worker-type thread --quiet --no-periodic",
    settings="`RedisHuey`, blocking, no results",
    bulk=False,
)
PROCRASTINATE = PythonPeer(
    "Procrastinate",
    POSTGRES,
    "python -m peers.procrastinate_jobs work",
    settings="concurrency 100, `delete_jobs=successful`, a pool of 8, uvloop; in bulk: "
    "`batch_defer_async`, 1,000 a call",
    tight="heartbeat 1 s, `stalled_worker_timeout=4`, and a periodic task of one's own that "
    "retries stalled jobs each second",
    prepares=True,
)
PGQUEUER = PythonPeer(
    "PgQueuer",
    POSTGRES,
    "python -m peers.pgqueuer_jobs work",
    settings="`batch_size=200`, asyncpg, uvloop; in bulk: 1,000 a call; together: a pool of 16",
    tight="`heartbeat_timeout` 4 s, `dequeue_timeout` 1 s",
    prepares=True,
    left="select count(*) from pgqueuer",
)
DBOS = PythonPeer(
    "DBOS",
    POSTGRES,
    "python -m peers.dbos_jobs work",
    settings="a queue polled each 0.02 s, `worker_concurrency=500`, a pool of 20",
    bulk=False,
    prepares=True,
)
HUEY_SQLITE = PythonPeer(
    "Huey",
    SQLITE,
    "huey_consumer peers.huey_jobs.queue --workers 1 --worker-type thread --quiet --no-periodic",
    settings="`SqliteHuey` (WAL, `synchronous=full`), no results",
    bulk=False,
)

ON_REDIS: list[Peer] = [BULLMQ, TASKIQ, DRAMATIQ, HUEY_REDIS, ARQ, SAQ, STREAQ, CELERY, RQ]
ON_POSTGRES: list[Peer] = [PGQUEUER, PROCRASTINATE, DBOS]
ON_SQLITE: list[Peer] = [HUEY_SQLITE]
EVERY = [*ON_REDIS, *ON_POSTGRES, *ON_SQLITE]
