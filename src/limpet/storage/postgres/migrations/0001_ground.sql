-- 0001_ground: the first tables.
-- purpose: what was asked for is written once (job); a narrow row for each job moves between small
--          tables: ready, running, parked (scheduled, blocked, quarantined) and done. A job is in
--          exactly one of them, by primary key and because it moves in one statement.
-- times:   whole microseconds; moment is on the lease clock, which is the server's.
-- text:    COLLATE "C", because names and ids are compared by the byte, and faster.

CREATE TABLE limpet.store (
    one integer PRIMARY KEY CHECK (one = 1),
    epoch text NOT NULL,             -- changes when the store is made anew
    schema_version integer NOT NULL,
    oldest_allowed integer NOT NULL, -- versions of the schema that may work on these tables
    newest_allowed integer NOT NULL,
    created_at bigint NOT NULL,
    closed text,                     -- what every verb sees: NULL when open; see relocate.sql
    relocation text,                 -- JSON: the store's part in a move
    cursor text                      -- up to where cargo has arrived
);

CREATE TABLE limpet.server (         -- which server gave jobs last
    one integer PRIMARY KEY CHECK (one = 1),
    run bigint NOT NULL,             -- when it was started, which no other one was
    base bigint NOT NULL,            -- tokens go on above it
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
    secrets text NOT NULL
);

CREATE TABLE limpet.ready (
    id text COLLATE "C" PRIMARY KEY,
    n bigint NOT NULL,
    tail bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    sort_key bigint NOT NULL,        -- ready time minus priority times 60 s
    ready_at bigint NOT NULL,        -- when it is, was, or will be due
    round integer NOT NULL,
    token bigint NOT NULL,
    failures integer NOT NULL,
    orphans integer NOT NULL,
    strikes integer NOT NULL,
    suspect boolean NOT NULL,
    last_run boolean NOT NULL,
    expires_at bigint,
    deadline_at bigint,
    session text COLLATE "C",        -- the holder, or the last one whose word was accepted
    claimed_at bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE limpet.parked (
    LIKE limpet.ready,
    state text COLLATE "C" NOT NULL CHECK (state IN ('scheduled', 'blocked', 'quarantined')),
    reason text COLLATE "C",         -- while blocked: what it waits for
    what text COLLATE "C",
    since bigint,
    PRIMARY KEY (id)
);

CREATE TABLE limpet.running (
    LIKE limpet.ready,
    begun boolean NOT NULL,
    cancel_requested_at bigint,
    seq bigint NOT NULL,             -- the exchange that claimed it, and its place in the answer
    place integer NOT NULL,
    mark bigint NOT NULL,            -- its share in the digest of what the session holds
    PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE limpet.done (
    LIKE limpet.ready,
    state text COLLATE "C" NOT NULL,
    finished_at bigint NOT NULL,
    cancel_requested_at bigint,
    result text,                     -- none where the task returned None
    result_secrets text,
    PRIMARY KEY (id)
);

-- The line: what a pool cannot run is not read past.
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
CREATE INDEX done_finished ON limpet.done (state, finished_at);
CREATE INDEX done_rare ON limpet.done (state, id) WHERE state <> 'succeeded';

CREATE TABLE limpet.trouble (        -- the error of a job whose last attempt went wrong
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
    settled text                     -- the move that was accepted, so that its repeat is known
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
    pools text NOT NULL,             -- JSON list: digests of the parts its executors can run
    lock text,
    renewals bigint NOT NULL DEFAULT 0,
    registered_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    ended_at bigint,
    cause text
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

-- What a session's exchanges change; apart from its lease, so that a renewal waits for none. It is one
-- row; gen grows with every 128 exchanges, so that whoever looks for the highest does not step over
-- all that the row ever was, while somebody's old transaction keeps that.
CREATE TABLE limpet.hold (
    session text COLLATE "C" NOT NULL,
    gen bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    held_count bigint NOT NULL DEFAULT 0,
    held_total bigint NOT NULL DEFAULT 0,
    rejected text NOT NULL DEFAULT '[]',
    lines jsonb,                     -- where the lines begin, while that is slow to find
    lines_until bigint,
    PRIMARY KEY (session, gen)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.taskset (
    digest text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    PRIMARY KEY (digest, task)
);

CREATE TABLE limpet.queue (
    name text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL
);

-- Every move, counted. Rows are only added, and folded together now and then: a counter that is
-- changed in place would let every worker wait for every other.
CREATE TABLE limpet.tally (
    queue text COLLATE "C" NOT NULL,
    move text NOT NULL,
    source text,
    target text,
    jobs bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0);

-- Every column has the same type in each part, or the view would be read whole.
CREATE VIEW limpet.placed AS
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       'ready'::text COLLATE "C" AS state, NULL::bigint AS finished_at,
       NULL::bigint AS cancel_requested_at, false AS begun, NULL::text COLLATE "C" AS blocked,
       NULL::text AS value, NULL::text AS value_secrets
FROM limpet.ready
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       'running'::text COLLATE "C", NULL::bigint, cancel_requested_at, begun,
       NULL::text COLLATE "C", NULL::text, NULL::text
FROM limpet.running
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       state, NULL::bigint, NULL::bigint, false, reason || ':' || what, NULL::text, NULL::text
FROM limpet.parked
UNION ALL
SELECT id, n, queue, task, priority, sort_key, ready_at, round, token, failures, orphans, strikes,
       suspect, last_run, expires_at, deadline_at, session, claimed_at,
       state, finished_at, cancel_requested_at, false, NULL::text COLLATE "C", result,
       result_secrets
FROM limpet.done;

CREATE VIEW limpet.job_view AS
SELECT p.n, p.id, p.task, p.queue, p.state, p.priority, p.round, p.token, p.failures, p.orphans,
       p.strikes, p.session, p.suspect, p.last_run, p.begun, j.created_at, p.ready_at,
       p.claimed_at, p.finished_at, p.expires_at, p.deadline_at, p.cancel_requested_at, p.blocked,
       j.parent, j.root, j.key, j.unique_key, j.weight_class, j.payload_version,
       j.args, j.options, j.secrets,
       g.done, g.total, g.note, g.at, p.value, t.error, p.value_secrets
FROM limpet.job j
JOIN limpet.placed p ON p.id = j.id
LEFT JOIN limpet.progress g ON g.id = j.id AND g.token = p.token
LEFT JOIN limpet.trouble t ON t.id = j.id;
