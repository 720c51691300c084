-- 0001_schema: all tables of the first release.
-- times:   whole microseconds of wall time, except limpet_session.moment, which is on the lease clock
--          (BOOTTIME of the machine whose boot id stands beside it).
-- gate:    cpu is in thousandths of a core, memory in bytes.

-- Before the first release the version was called schema_version, and counted differently: a store
-- with that column is refused, whatever its number, and the code of that time finds no version here.
CREATE TABLE limpet_store (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    epoch TEXT NOT NULL,             -- changes when the store is made anew
    version INTEGER NOT NULL,        -- of the schema
    oldest_allowed INTEGER NOT NULL, -- versions of the schema that may work on this file
    newest_allowed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    closed TEXT,                     -- the stage that every verb checks: NULL when open
    relocation TEXT,                 -- JSON: its part in a move
    cursor TEXT                      -- of the last cargo that arrived
) STRICT;

-- One row for each job; narrow, because every move rewrites it.
CREATE TABLE limpet_job (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,             -- no CHECK: it costs 2 µs a write; fsck checks it
    priority INTEGER NOT NULL,
    sort_key INTEGER NOT NULL,       -- ready time minus priority times 60 s
    ready_at INTEGER NOT NULL,       -- when it is, was, or will be due
    suspect INTEGER NOT NULL DEFAULT 0,
    last_run INTEGER NOT NULL DEFAULT 0,
    begun INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 1,
    token INTEGER NOT NULL DEFAULT 0,
    session TEXT,                    -- the holder, or the last one whose report was accepted
    failures INTEGER NOT NULL DEFAULT 0,
    orphans INTEGER NOT NULL DEFAULT 0,
    strikes INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    claimed_at INTEGER,
    finished_at INTEGER,
    cancel_requested_at INTEGER,
    expires_at INTEGER,
    deadline_at INTEGER,
    lapses_at INTEGER,               -- while it waits: when it may no longer start
    key TEXT,
    unique_key TEXT,
    parent TEXT,
    root TEXT,
    weight_class TEXT,
    payload_version INTEGER NOT NULL,
    -- Turn of its key: 0 it has none and waits for none, 1 it has one, 2 it is blocked until it gets one.
    turn INTEGER NOT NULL DEFAULT 0,
    -- The number of children for which it waits; it is blocked by them while this is not 0.
    pending INTEGER NOT NULL DEFAULT 0,
    -- Whether it is the job of its task that may hold its unique_key; its rules state how long.
    sole INTEGER NOT NULL DEFAULT 0,
    relaunch_at INTEGER,             -- when a failed job is relaunched
    rules TEXT                       -- JSON: what differs from the default of domain.rules
) STRICT;

-- Running jobs are few and are found through limpet_job_held: one index less to write at start and end.
CREATE INDEX limpet_job_by_state ON limpet_job (state, n) WHERE state <> 'running';
-- The task comes first, so that a pool is not held up by a million jobs that it cannot run.
CREATE INDEX limpet_job_ready ON limpet_job (queue, task, suspect, sort_key) WHERE state = 'ready';
CREATE INDEX limpet_job_due ON limpet_job (ready_at) WHERE state = 'scheduled';
CREATE INDEX limpet_job_held ON limpet_job (session) WHERE state = 'running';
CREATE INDEX limpet_job_cancel ON limpet_job (session) WHERE cancel_requested_at IS NOT NULL;
CREATE INDEX limpet_job_finished ON limpet_job (state, finished_at)
    WHERE finished_at IS NOT NULL;
CREATE INDEX limpet_job_lapse ON limpet_job (lapses_at) WHERE lapses_at IS NOT NULL;
-- The turns of a key, and the line of jobs that wait for one.
CREATE INDEX limpet_job_turn ON limpet_job (key) WHERE turn = 1;
CREATE INDEX limpet_job_line ON limpet_job (key, sort_key) WHERE turn = 2;
CREATE UNIQUE INDEX limpet_job_sole ON limpet_job (task, unique_key) WHERE sole = 1;
CREATE INDEX limpet_job_child ON limpet_job (parent) WHERE parent IS NOT NULL;
CREATE INDEX limpet_job_relaunch ON limpet_job (relaunch_at) WHERE relaunch_at IS NOT NULL;

-- Apart from the job, so that a move does not rewrite a large payload.
CREATE TABLE limpet_payload (
    n INTEGER PRIMARY KEY,
    args TEXT NOT NULL,
    options TEXT NOT NULL,
    secrets TEXT NOT NULL DEFAULT '[]'
) STRICT;

CREATE TABLE limpet_result (
    n INTEGER PRIMARY KEY,
    value TEXT,
    secrets TEXT NOT NULL DEFAULT '[]',
    error TEXT
) STRICT;

-- Why a blocked job waits: for a worker that knows its task, for its children, its key, a limit.
CREATE TABLE limpet_blocked (
    n INTEGER NOT NULL,
    reason TEXT NOT NULL,
    what TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (reason, what, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_blocked_by_job ON limpet_blocked (n);

CREATE TABLE limpet_event (
    e INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    session TEXT,
    token INTEGER,
    cause TEXT,
    claimed_at INTEGER,
    settled TEXT                     -- the move that was accepted; by it a repeat is recognised
) STRICT;
CREATE INDEX limpet_event_by_job ON limpet_event (n);

CREATE TABLE limpet_progress (
    n INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    done REAL NOT NULL,
    total REAL,
    note TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE limpet_log (
    l INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    message TEXT NOT NULL
) STRICT;
CREATE INDEX limpet_log_by_job ON limpet_log (n);

CREATE TABLE limpet_session (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('worker', 'permit', 'once')),
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    boot TEXT NOT NULL,
    lease INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('live', 'draining', 'dead')),
    moment INTEGER NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    held_count INTEGER NOT NULL DEFAULT 0,
    held_total INTEGER NOT NULL DEFAULT 0,
    tasks TEXT NOT NULL,             -- digest of all tasks that it knows
    pools TEXT NOT NULL,             -- JSON list: digests of the parts its executors can run
    renewals INTEGER NOT NULL DEFAULT 0,
    registered_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    ended_at INTEGER,
    cause TEXT,
    -- JSON: the path, inode and nonce of the files whose locks prove whether its processes live.
    lock TEXT,
    schedules TEXT NOT NULL DEFAULT '[]' -- JSON list: ids of the schedules that the worker's app declares
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_session_moment ON limpet_session (moment) WHERE state <> 'dead';

-- The answer to a session's last exchange, kept until the next one.
CREATE TABLE limpet_answer (
    session TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The tasks that a session knows, under their digest, so that equal workers share them.
CREATE TABLE limpet_taskset (
    digest TEXT NOT NULL,
    task TEXT NOT NULL,
    PRIMARY KEY (digest, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_queue (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    declared TEXT,                   -- JSON: rules that the app declares
    adjusted TEXT,                   -- JSON: rules set at run time, which override those
    held_until INTEGER NOT NULL DEFAULT 0,
    given_until INTEGER NOT NULL DEFAULT 0,
    draining INTEGER NOT NULL DEFAULT 0,
    -- From the rules in force, for statements that need only these: the concurrency, and whether there
    -- is a weight. `pace`: how much of its share the queue has had.
    concurrency INTEGER,
    weighted INTEGER NOT NULL DEFAULT 0,
    pace INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_queue_draining ON limpet_queue (name) WHERE draining = 1;
CREATE INDEX limpet_queue_bounded ON limpet_queue (name) WHERE concurrency IS NOT NULL;
CREATE INDEX limpet_queue_weighted ON limpet_queue (name) WHERE weighted = 1;

CREATE TABLE limpet_gauge (
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_total (
    queue TEXT NOT NULL,
    move TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (queue, move)
) STRICT, WITHOUT ROWID;

-- A key with settings of its own beside the rules of its jobs.
CREATE TABLE limpet_key (
    key TEXT PRIMARY KEY,
    most INTEGER,                    -- how many jobs of it may be under way, whatever their rules
    rate TEXT,                       -- JSON: how often one may begin, whatever their rules
    given_until INTEGER NOT NULL DEFAULT 0, -- how far its rate has given out turns
    next_at INTEGER                  -- when promote must give turns of it
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_key_next ON limpet_key (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX limpet_key_idle ON limpet_key (given_until)
    WHERE most IS NULL AND rate IS NULL AND next_at IS NULL;

-- Jobs kept aside under the name of a flow, where no verb of jobs sees them.
CREATE TABLE limpet_staged (
    flow TEXT NOT NULL,
    place INTEGER NOT NULL,
    jobs TEXT NOT NULL,              -- JSON list, each in the order of NewJob
    staged_at INTEGER NOT NULL,
    -- JSON: how many jobs it has for each queue, so that caps count jobs that are not written out yet.
    queues TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (flow, place)
) STRICT;
CREATE INDEX limpet_staged_old ON limpet_staged (staged_at);

-- Flows that are committed; kept for a while after they were written out, to recognise a repeat.
CREATE TABLE limpet_flow (
    f INTEGER PRIMARY KEY,
    flow TEXT NOT NULL UNIQUE,
    chunks INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    written INTEGER NOT NULL DEFAULT 0, -- how many chunks are written out
    whole INTEGER NOT NULL DEFAULT 0    -- 1 when all are
) STRICT;
CREATE INDEX limpet_flow_open ON limpet_flow (f) WHERE whole = 0;
CREATE INDEX limpet_flow_whole ON limpet_flow (committed_at) WHERE whole = 1;

-- Parents that failed or were cancelled, while there may be children left to cancel.
CREATE TABLE limpet_gone (
    n INTEGER PRIMARY KEY,
    passed INTEGER NOT NULL DEFAULT 0 -- number of the last child that was looked at
) STRICT;

CREATE TABLE limpet_breaker (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    body TEXT NOT NULL               -- JSON: the whole breaker, as in records.store_settings
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_breaker_open ON limpet_breaker (name) WHERE state <> 'closed';

-- Jobs that are handed in again and again.
CREATE TABLE limpet_schedule (
    id TEXT PRIMARY KEY,
    timing TEXT NOT NULL,            -- its moments; while these stay the same, next_at stays
    definition TEXT NOT NULL,        -- JSON: all that the user set
    next_at INTEGER NOT NULL,        -- the next tick
    paused INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER,                 -- the last tick that handed in a job, and that job
    last_job TEXT,
    fired INTEGER NOT NULL DEFAULT 0,
    passed INTEGER NOT NULL DEFAULT 0,
    changed_at INTEGER NOT NULL      -- grows with every change of timing and definition
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_schedule_due ON limpet_schedule (next_at) WHERE paused = 0;

-- Permits of hosts, and reports of hosts.
CREATE TABLE limpet_permit (
    holder TEXT PRIMARY KEY,         -- a running job, or a session of the kind permit
    n INTEGER,                       -- the job's number
    server TEXT NOT NULL,
    session TEXT NOT NULL,
    what TEXT NOT NULL,              -- the job's task, or what the caller calls itself
    cpu INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    heavy INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE limpet_reservation (
    server TEXT PRIMARY KEY,
    n INTEGER NOT NULL,              -- the job for which the server is reserved
    token INTEGER NOT NULL,          -- the job's token: any claim of the job ends the reservation
    at INTEGER NOT NULL,             -- when it was confirmed last
    -- The caller for which the server is reserved. Then n is 0, which no job has.
    session TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_host (
    server TEXT PRIMARY KEY,
    body TEXT NOT NULL,              -- JSON
    at INTEGER NOT NULL,
    until INTEGER NOT NULL           -- the report lapses at this time
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_sample (
    server TEXT NOT NULL,
    span TEXT NOT NULL,              -- second or minute
    at INTEGER NOT NULL,
    body TEXT NOT NULL,              -- JSON
    PRIMARY KEY (server, span, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_sample_old ON limpet_sample (span, at);

-- A job with everything about it, in the order that sql/rows.py reads.
CREATE VIEW limpet_job_view AS
SELECT j.n, j.id, j.task, j.queue, j.state, j.priority, j.round, j.token, j.failures, j.orphans,
       j.strikes, j.session, j.suspect, j.last_run, j.begun, j.created_at, j.ready_at,
       j.claimed_at, j.finished_at, j.expires_at, j.deadline_at, j.cancel_requested_at,
       -- Most reasons are in the job's row itself; only the others have a row in limpet_blocked.
       CASE WHEN j.turn = 2 THEN 'key:' || j.key
            WHEN j.pending > 0 THEN 'children:'
            ELSE (SELECT b.reason || ':' || b.what FROM limpet_blocked b WHERE b.n = j.n LIMIT 1)
       END AS blocked,
       j.parent, j.root, j.key, j.unique_key, j.weight_class, j.payload_version,
       p.args, p.options, p.secrets,
       g.done, g.total, g.note, g.at, r.value, r.error, r.secrets AS result_secrets,
       j.pending, j.relaunch_at, j.rules
FROM limpet_job j
JOIN limpet_payload p ON p.n = j.n
LEFT JOIN limpet_progress g ON g.n = j.n AND g.token = j.token
LEFT JOIN limpet_result r ON r.n = j.n;
