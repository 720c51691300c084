-- 0002_shaping: turns of keys, uniques, flows, limits of queues, breakers.
-- purpose: what jobs ask of the store beside being run. Columns that are added have a constant default,
--          and no index is made on a table that may be large, so that nobody waits for it.
-- turns:   a job with a key is in ready or running only with a turn; key.held counts them. Those that wait
--          are parked, and found in order by parked_blocked: `what` is the key, and after a character
--          30, which no key has in it, the place in its line (see v1_waits).

ALTER TABLE limpet.job ADD COLUMN rules text; -- JSON, none where all is as by default

-- shaped: it has a key or a parent, so that somebody may be waiting for it to end (see after).
ALTER TABLE limpet.ready ADD COLUMN shaped boolean NOT NULL DEFAULT false;
ALTER TABLE limpet.parked
    ADD COLUMN shaped boolean NOT NULL DEFAULT false,
    ADD COLUMN pending integer NOT NULL DEFAULT 0, -- for how many children it waits
    ADD COLUMN turn boolean NOT NULL DEFAULT false; -- it keeps its turn while it is scheduled
ALTER TABLE limpet.running
    ADD COLUMN shaped boolean NOT NULL DEFAULT false,
    ADD COLUMN limited boolean NOT NULL DEFAULT false; -- its queue has a limit of what runs
ALTER TABLE limpet.parked SET (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX running_limited ON limpet.running (queue) WHERE limited;

-- There while it has turns, or while something is set.
CREATE TABLE limpet.key (
    name text COLLATE "C" PRIMARY KEY,
    held integer NOT NULL,           -- how many jobs have a turn
    most integer NOT NULL DEFAULT 1000, -- the highest limit that a job named
    rated boolean NOT NULL DEFAULT false,
    set_limit integer,               -- by limit_key, above what jobs name
    set_rate text,                   -- JSON: count, period, burst
    given_until bigint NOT NULL DEFAULT 0, -- see domain/rate.py
    next_at bigint                   -- when its rate gives the next turn to one that waits
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_next ON limpet.key (next_at) WHERE next_at IS NOT NULL;

-- What was left to the next promote or exchange, because whoever wrote it may not wait for a lock, or
-- may not hold one: `key`: somebody may have a turn of it. `ended`: a job is final, see after.
-- `gone`: the descendants of a job are to be cancelled, if it failed or was cancelled.
CREATE TABLE limpet.note (
    e bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('key', 'ended', 'gone')),
    what text COLLATE "C" NOT NULL,
    turn boolean NOT NULL DEFAULT false, -- ended: it had a turn of its key
    alone boolean NOT NULL DEFAULT false, -- ended: it waited for children
    most integer,                    -- key: the highest limit of those that ask; NULL: not known
    rated boolean NOT NULL DEFAULT false -- key: one of those that ask has a rate
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

CREATE TABLE limpet.single (         -- who holds a unique, or held it last
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

CREATE TABLE limpet.relaunch (       -- failed jobs that are given another chance
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
    PRIMARY KEY (flow, place, item)
);
CREATE INDEX staged_by_id ON limpet.staged (flow, id);
CREATE INDEX staged_by_parent ON limpet.staged (flow, parent);

CREATE TABLE limpet.breaker (
    name text COLLATE "C" PRIMARY KEY,
    piece text NOT NULL,             -- JSON, see storage/furniture.py
    tasks text[] COLLATE "C" NOT NULL, -- as in the piece, and so are the next
    state text NOT NULL,
    probe_at bigint,
    probe_after bigint NOT NULL
);

-- declared and adjusted are JSON, see QueueRules; the next four are what is in force of them.
ALTER TABLE limpet.queue
    ALTER COLUMN paused SET DEFAULT false,
    ADD COLUMN declared text NOT NULL DEFAULT '[null,null,null]',
    ADD COLUMN adjusted text NOT NULL DEFAULT '[null,null,null]',
    ADD COLUMN concurrency integer,
    ADD COLUMN step bigint,          -- of its rate: how much time a job takes up
    ADD COLUMN burst bigint,
    ADD COLUMN weight integer,
    ADD COLUMN limited_at bigint NOT NULL DEFAULT 0, -- since when it has a concurrency
    ADD COLUMN held_until bigint NOT NULL DEFAULT 0,
    ADD COLUMN given_until bigint NOT NULL DEFAULT 0,
    ADD COLUMN draining boolean NOT NULL DEFAULT false,
    ADD COLUMN start_tag double precision NOT NULL DEFAULT 0, -- of the last job served, by weight
    ADD COLUMN next_tag double precision NOT NULL DEFAULT 0;  -- of the one that is served next
CREATE INDEX queue_ruled ON limpet.queue (name)
    WHERE concurrency IS NOT NULL OR step IS NOT NULL OR weight IS NOT NULL OR held_until > 0;
CREATE INDEX queue_draining ON limpet.queue (name) WHERE draining;

CREATE OR REPLACE VIEW limpet.placed AS
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

CREATE OR REPLACE VIEW limpet.job_view AS
SELECT p.n, p.id, p.task, p.queue, p.state, p.priority, p.round, p.token, p.failures, p.orphans,
       p.strikes, p.session, p.suspect, p.last_run, p.begun, j.created_at, p.ready_at,
       p.claimed_at, p.finished_at, p.expires_at, p.deadline_at, p.cancel_requested_at, p.blocked,
       j.parent, j.root, j.key, j.unique_key, j.weight_class, j.payload_version,
       j.args, j.options, j.secrets,
       g.done, g.total, g.note, g.at, p.value, t.error, p.value_secrets,
       p.pending, (SELECT r.at FROM limpet.relaunch r WHERE r.id = j.id) AS relaunch_at, j.rules
FROM limpet.job j
JOIN limpet.placed p ON p.id = j.id
LEFT JOIN limpet.progress g ON g.id = j.id AND g.token = p.token
LEFT JOIN limpet.trouble t ON t.id = j.id;
