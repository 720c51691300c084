-- 0001_schema: all tables of the first release.
-- purpose: a request is written once (job). A narrow row for each job moves between small tables: ready,
--          running, parked (scheduled, blocked, quarantined) and done. A job is in exactly one of them,
--          by primary key and because it moves in one statement.
-- turns:   a job with a key is in ready or running only with a turn; key.held counts the turns. Jobs that
--          wait for a turn are parked, and found in order by parked_blocked: `what` is the key, then a
--          character 30, which no key contains, then the place in the line (see v1_line_place).
-- times:   whole microseconds; moment is on the lease clock, which is the server's clock.
-- gate:    cpu is in thousandths of a core, memory in bytes.
-- text:    COLLATE "C", because names and ids are compared by bytes, and faster.

-- Before the first release the version was called schema_version, and counted differently. A store with that
-- column is refused, whatever its number, and code of that time finds no version here.
CREATE TABLE limpet.store (
    one integer PRIMARY KEY CHECK (one = 1),
    epoch text NOT NULL,             -- changes when the store is created anew
    version integer NOT NULL,        -- of the schema
    oldest_allowed integer NOT NULL, -- versions of the schema that may work on these tables
    newest_allowed integer NOT NULL,
    created_at bigint NOT NULL,
    closed text,                     -- read by every verb: NULL when open; see relocate.sql
    relocation text,                 -- JSON: the store's part in a move
    cursor text                      -- up to where cargo has arrived
);

CREATE TABLE limpet.server (         -- the server that gave out jobs last
    one integer PRIMARY KEY CHECK (one = 1),
    run bigint NOT NULL,             -- when it was started, by which it is recognised
    base bigint NOT NULL,            -- new tokens are above this number
    moved_at bigint NOT NULL,        -- when it took over (lease clock); 0 for the first
    longest bigint NOT NULL          -- the longest lease at that time
);

CREATE SEQUENCE limpet.line;         -- the order in which jobs came in

CREATE TABLE limpet.job (            -- written once, removed by prune, never changed
    id text COLLATE "C" PRIMARY KEY,
    n bigint NOT NULL,
    tail bigint NOT NULL,            -- the end of the id as a number, for the digest of a session
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    created_at bigint NOT NULL,
    scheduled_for bigint,
    expires_at bigint,
    deadline_at bigint,
    key text,
    unique_key text,
    parent text,
    root text,
    weight_class text,
    payload_version integer NOT NULL,
    args text NOT NULL,
    options text NOT NULL,
    secrets text NOT NULL,
    rules text                       -- JSON; NULL where all rules are the defaults
);

CREATE TABLE limpet.ready (
    id text COLLATE "C" PRIMARY KEY,
    n bigint NOT NULL,
    tail bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    sort_key bigint NOT NULL,        -- ready time minus priority times 60 s
    ready_at bigint NOT NULL,        -- when the job is, was, or will be due
    round integer NOT NULL,
    token bigint NOT NULL,
    failures integer NOT NULL,
    orphans integer NOT NULL,
    strikes integer NOT NULL,
    suspect boolean NOT NULL,
    last_run boolean NOT NULL,
    expires_at bigint,
    deadline_at bigint,
    session text COLLATE "C",        -- the holder, or the last one whose settlement was accepted
    claimed_at bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE limpet.parked (
    LIKE limpet.ready,
    state text COLLATE "C" NOT NULL CHECK (state IN ('scheduled', 'blocked', 'quarantined')),
    reason text COLLATE "C",         -- while blocked: what it waits for
    what text COLLATE "C",
    since bigint,
    shaped boolean NOT NULL DEFAULT false, -- see ready
    pending integer NOT NULL DEFAULT 0, -- how many children it waits for
    turn boolean NOT NULL DEFAULT false, -- whether it keeps its turn while it is scheduled
    PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE limpet.running (
    LIKE limpet.ready,
    begun boolean NOT NULL,
    cancel_requested_at bigint,
    seq bigint NOT NULL,             -- the exchange that claimed it, and its place in the answer
    place integer NOT NULL,
    mark bigint NOT NULL,            -- its share in the digest of what the session holds
    shaped boolean NOT NULL DEFAULT false, -- see ready
    limited boolean NOT NULL DEFAULT false, -- its queue has a concurrency, or the job has a permit
    PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE limpet.done (
    LIKE limpet.ready,
    state text COLLATE "C" NOT NULL,
    finished_at bigint NOT NULL,
    cancel_requested_at bigint,
    result text,                     -- NULL where the task returned None
    result_secrets text,
    PRIMARY KEY (id)
);

-- Whether the job has a key or a parent, so that others may be waiting for its end (see after). Added here,
-- because the table done, which is made like ready, does not have it.
ALTER TABLE limpet.ready ADD COLUMN shaped boolean NOT NULL DEFAULT false;

-- The lines: a claim reads only lines of tasks that its pool can run.
CREATE INDEX ready_line ON limpet.ready (queue, task, suspect, sort_key, n);
CREATE INDEX ready_lapse ON limpet.ready ((LEAST(expires_at, deadline_at)))
    WHERE LEAST(expires_at, deadline_at) IS NOT NULL;
CREATE INDEX parked_due ON limpet.parked (ready_at) WHERE state = 'scheduled';
CREATE INDEX parked_blocked ON limpet.parked (reason, what) WHERE state = 'blocked';
CREATE INDEX parked_waiting ON limpet.parked (queue) WHERE state IN ('scheduled', 'blocked');
CREATE INDEX parked_lapse ON limpet.parked ((LEAST(expires_at, deadline_at)))
    WHERE LEAST(expires_at, deadline_at) IS NOT NULL AND state <> 'quarantined';
CREATE INDEX running_held ON limpet.running (session);
CREATE INDEX running_cancel ON limpet.running (session) WHERE cancel_requested_at IS NOT NULL;
CREATE INDEX running_limited ON limpet.running (queue) WHERE limited;
CREATE INDEX done_finished ON limpet.done (state, finished_at);
CREATE INDEX done_rare ON limpet.done (state, id) WHERE state <> 'succeeded';

CREATE TABLE limpet.trouble (        -- the error of a job whose last attempt failed
    id text COLLATE "C" PRIMARY KEY,
    error text NOT NULL
);

CREATE TABLE limpet.event (
    e bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    event text NOT NULL,
    session text COLLATE "C",
    token bigint,
    cause text,
    claimed_at bigint,
    settled text                     -- the move that was accepted, so that its repeat is recognised
);
CREATE INDEX event_by_job ON limpet.event (id, e);

CREATE TABLE limpet.progress (
    id text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    done double precision NOT NULL,
    total double precision,
    note text NOT NULL,
    at bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE limpet.log (
    l bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    level text NOT NULL,
    message text NOT NULL
);
CREATE INDEX log_by_job ON limpet.log (id, l);

-- A renewal changes no indexed column, so that it is one small write in place.
CREATE TABLE limpet.session (
    id text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('worker', 'permit', 'once')),
    name text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    boot text NOT NULL,
    lease bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('live', 'draining', 'dead')),
    moment bigint NOT NULL,
    tasks text COLLATE "C" NOT NULL, -- digest of all the tasks it knows
    pools text NOT NULL,             -- JSON list: digests of the tasks that each pool can run
    lock text,
    renewals bigint NOT NULL DEFAULT 0,
    registered_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    ended_at bigint,
    cause text,
    schedules text NOT NULL DEFAULT '[]' -- JSON list: the schedules that the code of a worker declares
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

-- What the exchanges of a session change; apart from its lease, so that a renewal waits for no exchange. A
-- session has one row. gen grows with every 128 exchanges: while an old transaction keeps dead versions of
-- the row, a read of the highest gen does not step over all of them.
CREATE TABLE limpet.hold (
    session text COLLATE "C" NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    held_count bigint NOT NULL DEFAULT 0,
    held_total bigint NOT NULL DEFAULT 0,
    rejected text NOT NULL DEFAULT '[]',
    lines jsonb,                     -- where the lines begin, while that is slow to find
    lines_until bigint,
    next_at bigint,                  -- this and the next: parts of the last answer, for its repeat
    passed_over integer NOT NULL DEFAULT 0, -- as domain.permit.PassedOver
    PRIMARY KEY (session, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.taskset (
    digest text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    PRIMARY KEY (digest, task)
);

-- declared and adjusted are JSON, see QueueRules; the next four columns are the rules in force.
CREATE TABLE limpet.queue (
    name text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    declared text NOT NULL DEFAULT '[null,null,null]',
    adjusted text NOT NULL DEFAULT '[null,null,null]',
    concurrency integer,
    step bigint,                     -- of its rate: the time between two jobs
    burst bigint,
    weight integer,
    limited_at bigint NOT NULL DEFAULT 0, -- when its concurrency was set
    held_until bigint NOT NULL DEFAULT 0,
    given_until bigint NOT NULL DEFAULT 0,
    draining boolean NOT NULL DEFAULT false,
    start_tag double precision NOT NULL DEFAULT 0, -- of the last job served, by weight
    next_tag double precision NOT NULL DEFAULT 0 -- of the next job to be served
);
CREATE INDEX queue_ruled ON limpet.queue (name)
    WHERE concurrency IS NOT NULL OR step IS NOT NULL OR weight IS NOT NULL OR held_until > 0;
CREATE INDEX queue_draining ON limpet.queue (name) WHERE draining;

-- The counts of all moves. Rows are only added, and now and then folded together: a counter that is changed
-- in place would make every worker wait for every other.
CREATE TABLE limpet.tally (
    queue text COLLATE "C" NOT NULL,
    move text NOT NULL,
    source text,
    target text,
    jobs bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0);

-- A key exists while it has turns, or while a limit or a rate is set for it.
CREATE TABLE limpet.key (
    name text COLLATE "C" PRIMARY KEY,
    held integer NOT NULL,           -- how many jobs have a turn
    most integer NOT NULL DEFAULT 1000, -- the highest limit that a job named
    rated boolean NOT NULL DEFAULT false,
    set_limit integer,               -- set by limit_key; overrides what jobs name
    set_rate text,                   -- JSON: count, period, burst
    given_until bigint NOT NULL DEFAULT 0, -- see domain/rate.py
    next_at bigint                   -- when its rate gives the next turn to a waiting job
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_next ON limpet.key (next_at) WHERE next_at IS NOT NULL;

-- Work that is left to the next promote or exchange, because the transaction that wrote it must not wait for
-- a lock, or must not hold one. Kinds:
--   key: a turn of the key may be free.
--   ended: a job is final, see after.
--   gone: cancel the descendants of a job, if it failed or was cancelled.
CREATE TABLE limpet.note (
    e bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('key', 'ended', 'gone')),
    what text COLLATE "C" NOT NULL,
    turn boolean NOT NULL DEFAULT false, -- ended: it had a turn of its key
    alone boolean NOT NULL DEFAULT false, -- ended: it waited for children
    most integer,                    -- key: the highest limit of the waiting jobs; NULL: not known
    rated boolean NOT NULL DEFAULT false -- key: whether one of the waiting jobs has a rate
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE TABLE limpet.single (         -- the job that holds a unique, or held it last
    task text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    until_at bigint,                 -- where it is held for a time
    PRIMARY KEY (task, name)
);
CREATE INDEX single_by_job ON limpet.single (id);

CREATE TABLE limpet.child (
    parent text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent, n)
);

CREATE TABLE limpet.relaunch (       -- failed jobs that get another round, and when
    id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
);
CREATE INDEX relaunch_due ON limpet.relaunch (at);

CREATE TABLE limpet.flow (
    id text COLLATE "C" PRIMARY KEY,
    places integer[] NOT NULL,
    staged_at bigint NOT NULL,
    committed_at bigint,
    written boolean NOT NULL DEFAULT false
);
CREATE INDEX flow_committed ON limpet.flow (committed_at, id)
    WHERE committed_at IS NOT NULL AND NOT written;
CREATE TABLE limpet.staged (
    flow text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    item integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent text COLLATE "C",
    job text NOT NULL,               -- JSON, see NewJob
    queue text COLLATE "C" NOT NULL DEFAULT '', -- as in the job: caps count jobs that are not written out
    PRIMARY KEY (flow, place, item)
);
CREATE INDEX staged_by_id ON limpet.staged (flow, id);
CREATE INDEX staged_by_parent ON limpet.staged (flow, parent);

CREATE TABLE limpet.breaker (
    name text COLLATE "C" PRIMARY KEY,
    piece text NOT NULL,             -- JSON, see records/store_settings.py
    tasks text[] COLLATE "C" NOT NULL, -- this and the next columns: as in the piece
    state text NOT NULL,
    probe_at bigint,
    probe_after bigint NOT NULL
);

-- Jobs that are enqueued again and again.
CREATE TABLE limpet.schedule (
    id text COLLATE "C" PRIMARY KEY,
    timing text NOT NULL,            -- when it ticks; while this stays the same, next_at does
    definition text NOT NULL,        -- JSON: the whole schedule
    next_at bigint NOT NULL,         -- the next tick
    paused boolean NOT NULL DEFAULT false,
    last_at bigint,                  -- the last tick that enqueued a job, and that job
    last_job text COLLATE "C",
    fired bigint NOT NULL DEFAULT 0,
    passed bigint NOT NULL DEFAULT 0,
    changed_at bigint NOT NULL       -- grows with every change of timing and definition
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);
CREATE INDEX schedule_due ON limpet.schedule (next_at) WHERE NOT paused;

-- Permits of hosts, and what hosts publish about themselves.
CREATE TABLE limpet.permit (
    e bigint GENERATED ALWAYS AS IDENTITY,
    holder text COLLATE "C" PRIMARY KEY, -- a job that runs, or the session itself of a caller outside
    server text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    what text NOT NULL,              -- the job's task, or what the caller calls itself
    cpu bigint NOT NULL,
    memory bigint NOT NULL,
    heavy boolean NOT NULL,
    at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX permit_server ON limpet.permit (server);

-- A host that is reserved for a job that is ready with this token; a claim gives the job another token, which
-- ends the reservation. Where the token is -1, which no job has, `job` is the session of a caller outside.
CREATE TABLE limpet.reservation (
    server text COLLATE "C" PRIMARY KEY,
    job text COLLATE "C" NOT NULL,   -- nothing else is admitted there until it begins
    token bigint NOT NULL,
    at bigint NOT NULL               -- when it was last confirmed
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.host (
    server text COLLATE "C" PRIMARY KEY,
    body text NOT NULL,              -- JSON
    at bigint NOT NULL,
    until bigint NOT NULL            -- the host counts as gone if it publishes nothing before this
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.sample (
    server text COLLATE "C" NOT NULL,
    span text COLLATE "C" NOT NULL,  -- second or minute
    at bigint NOT NULL,
    body text NOT NULL,              -- JSON
    PRIMARY KEY (server, span, at)
);
CREATE INDEX sample_old ON limpet.sample (span, at);

-- Every column has the same type in each part; otherwise filters would not reach the tables' indexes.
CREATE VIEW limpet.placed AS
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       'ready'::text COLLATE "C" AS state, NULL::bigint AS finished_at,
       NULL::bigint AS cancel_requested_at, false AS begun, NULL::text COLLATE "C" AS blocked,
       NULL::text AS value, NULL::text AS value_secrets, 0 AS pending, shaped AS turn
FROM limpet.ready
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       'running'::text COLLATE "C", NULL::bigint, cancel_requested_at, begun,
       NULL::text COLLATE "C", NULL::text, NULL::text, 0, shaped
FROM limpet.running
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       state, NULL::bigint, NULL::bigint, false,
       reason || ':' || split_part(what, E'\x1e', 1), NULL::text, NULL::text, pending, turn
FROM limpet.parked
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       state, finished_at, cancel_requested_at, false, NULL::text COLLATE "C", result,
       result_secrets, 0, false
FROM limpet.done;

-- A job with everything that is kept about it, in the order that storage/sql/rows.py reads.
CREATE VIEW limpet.job_view AS
SELECT p.n, p.id, p.task, p.queue, p.state, p.priority, p.round, p.token, p.failures, p.orphans,
       p.strikes, p.session, p.suspect, p.last_run, p.begun, j.created_at, p.ready_at,
       p.claimed_at, p.finished_at, p.expires_at, p.deadline_at, p.cancel_requested_at, p.blocked,
       j.parent, j.root, j.key, j.unique_key, j.weight_class, j.payload_version,
       j.args, j.options, j.secrets,
       g.done, g.total, g.note, g.at, p.value, t.error, p.value_secrets AS result_secrets,
       p.pending, (SELECT r.at FROM limpet.relaunch r WHERE r.id = j.id) AS relaunch_at, j.rules
FROM limpet.job j
JOIN limpet.placed p ON p.id = j.id
LEFT JOIN limpet.progress g ON g.id = j.id AND g.token = p.token
LEFT JOIN limpet.trouble t ON t.id = j.id;
