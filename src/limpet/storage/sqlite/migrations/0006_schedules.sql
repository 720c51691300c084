-- 0006_schedules: jobs that are handed in again and again.
-- Times are wall time in whole microseconds.

CREATE TABLE limpet_schedule (
    id TEXT PRIMARY KEY,
    timing TEXT NOT NULL,            -- its moments; while they stay the same, next_at does
    definition TEXT NOT NULL,        -- JSON: what is said of it
    next_at INTEGER NOT NULL,        -- the tick to come
    paused INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER,                 -- the last tick that handed in a job, and that job
    last_job TEXT,
    fired INTEGER NOT NULL DEFAULT 0,
    passed INTEGER NOT NULL DEFAULT 0,
    changed_at INTEGER NOT NULL      -- grows with every change of timing and definition
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_schedule_due ON limpet_schedule (next_at) WHERE paused = 0;

-- JSON list: the schedules that the code of a worker declares.
ALTER TABLE limpet_session ADD COLUMN schedules TEXT NOT NULL DEFAULT '[]';

-- How many jobs a part has of each queue, as JSON, so that caps count what is not written out yet.
ALTER TABLE limpet_staged ADD COLUMN queues TEXT NOT NULL DEFAULT '{}';
