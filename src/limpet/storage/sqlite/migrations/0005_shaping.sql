-- 0005_shaping: turns of keys, uniques, flows, limits of queues, breakers, another chance.

-- Of its key: 0 it has no turn and waits for none, 1 it has one, 2 it is blocked until it gets one.
ALTER TABLE limpet_job ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
-- For how many children it waits; it is blocked by them while this is not 0.
ALTER TABLE limpet_job ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
-- Whether it is the one of its task that may hold its unique_key; how long it does, its rules say.
ALTER TABLE limpet_job ADD COLUMN sole INTEGER NOT NULL DEFAULT 0;
-- When a failed one is given another chance.
ALTER TABLE limpet_job ADD COLUMN relaunch_at INTEGER;
-- JSON: what differs from the default of domain.rules; NULL for nothing.
ALTER TABLE limpet_job ADD COLUMN rules TEXT;

-- Until now a key and a unique were kept and meant nothing: what is under way goes on, and who comes
-- next finds it.
UPDATE limpet_job SET turn = 1 WHERE key IS NOT NULL AND state IN ('ready', 'running');
UPDATE limpet_job SET sole = 1 WHERE n IN (
    SELECT max(n) FROM limpet_job WHERE unique_key IS NOT NULL GROUP BY task, unique_key);

-- The turns of a key, and the line of those that wait for one.
CREATE INDEX limpet_job_turn ON limpet_job (key) WHERE turn = 1;
CREATE INDEX limpet_job_line ON limpet_job (key, sort_key) WHERE turn = 2;
CREATE UNIQUE INDEX limpet_job_sole ON limpet_job (task, unique_key) WHERE sole = 1;
CREATE INDEX limpet_job_child ON limpet_job (parent) WHERE parent IS NOT NULL;
CREATE INDEX limpet_job_relaunch ON limpet_job (relaunch_at) WHERE relaunch_at IS NOT NULL;

-- A key about which something is said beside what its jobs say.
CREATE TABLE limpet_key (
    key TEXT PRIMARY KEY,
    most INTEGER,                    -- how many jobs of it may be under way, whatever they say
    rate TEXT,                       -- JSON: how often one may begin, whatever they say
    given_until INTEGER NOT NULL DEFAULT 0, -- how far its rate has given out turns
    next_at INTEGER                  -- when promote is to give turns of it
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_key_next ON limpet_key (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX limpet_key_idle ON limpet_key (given_until)
    WHERE most IS NULL AND rate IS NULL AND next_at IS NULL;

ALTER TABLE limpet_queue ADD COLUMN declared TEXT;   -- JSON: what the app says of it
ALTER TABLE limpet_queue ADD COLUMN adjusted TEXT;   -- JSON: what was set at run time, above that
ALTER TABLE limpet_queue ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limpet_queue ADD COLUMN given_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limpet_queue ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
-- Of the rules in force, for whoever asks only for that: the concurrency, and whether it has a
-- weight; and how much of its share it has had.
ALTER TABLE limpet_queue ADD COLUMN concurrency INTEGER;
ALTER TABLE limpet_queue ADD COLUMN weighted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limpet_queue ADD COLUMN pace INTEGER NOT NULL DEFAULT 0;
CREATE INDEX limpet_queue_draining ON limpet_queue (name) WHERE draining = 1;
CREATE INDEX limpet_queue_bounded ON limpet_queue (name) WHERE concurrency IS NOT NULL;
CREATE INDEX limpet_queue_weighted ON limpet_queue (name) WHERE weighted = 1;

-- Jobs kept aside under the name of a flow, where nobody sees them.
CREATE TABLE limpet_staged (
    flow TEXT NOT NULL,
    place INTEGER NOT NULL,
    jobs TEXT NOT NULL,              -- JSON list, each in the order of NewJob
    staged_at INTEGER NOT NULL,
    PRIMARY KEY (flow, place)
) STRICT;
CREATE INDEX limpet_staged_old ON limpet_staged (staged_at);

-- Flows that are committed; kept for a while after all was written out, to know a repeat.
CREATE TABLE limpet_flow (
    f INTEGER PRIMARY KEY,
    flow TEXT NOT NULL UNIQUE,
    chunks INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    written INTEGER NOT NULL DEFAULT 0, -- how many of the chunks are
    whole INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX limpet_flow_open ON limpet_flow (f) WHERE whole = 0;
CREATE INDEX limpet_flow_whole ON limpet_flow (committed_at) WHERE whole = 1;

-- Parents that failed or were cancelled, while there may be children left to cancel.
CREATE TABLE limpet_gone (
    n INTEGER PRIMARY KEY,
    passed INTEGER NOT NULL DEFAULT 0 -- the number of the last child that was looked at
) STRICT;

CREATE TABLE limpet_breaker (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    body TEXT NOT NULL               -- JSON: all of it, as storage.furniture has it
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_breaker_open ON limpet_breaker (name) WHERE state <> 'closed';

DROP VIEW limpet_job_view;
-- A job with everything that is told about it, in the order that rows.py reads.
CREATE VIEW limpet_job_view AS
SELECT j.n, j.id, j.task, j.queue, j.state, j.priority, j.round, j.token, j.failures, j.orphans,
       j.strikes, j.session, j.suspect, j.last_run, j.begun, j.created_at, j.ready_at,
       j.claimed_at, j.finished_at, j.expires_at, j.deadline_at, j.cancel_requested_at,
       -- The row itself tells what most wait for; only the others have a row of their own.
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
