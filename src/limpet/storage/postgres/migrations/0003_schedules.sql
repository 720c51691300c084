-- 0003_schedules: jobs that are handed in again and again.
-- times:   wall time in whole microseconds.

CREATE TABLE limpet.schedule (
    id text COLLATE "C" PRIMARY KEY,
    timing text NOT NULL,            -- its moments; while they stay the same, next_at does
    definition text NOT NULL,        -- JSON: what is said of it
    next_at bigint NOT NULL,         -- the tick to come
    paused boolean NOT NULL DEFAULT false,
    last_at bigint,                  -- the last tick that handed in a job, and that job
    last_job text COLLATE "C",
    fired bigint NOT NULL DEFAULT 0,
    passed bigint NOT NULL DEFAULT 0,
    changed_at bigint NOT NULL       -- grows with every change of timing and definition
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);
CREATE INDEX schedule_due ON limpet.schedule (next_at) WHERE NOT paused;

-- JSON list: the schedules that the code of a worker declares.
ALTER TABLE limpet.session ADD COLUMN schedules text NOT NULL DEFAULT '[]';

-- As in the job, so that caps count what is not written out yet.
ALTER TABLE limpet.staged ADD COLUMN queue text COLLATE "C" NOT NULL DEFAULT '';
