-- 0004_gate: permits of hosts, and what hosts say of themselves.
-- times:   wall time in whole microseconds. cpu is in thousandths of a core, memory in bytes.
-- limited: from here on running.limited is also true of a job that has a permit, so that who ends others
--          need not look for one.

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

-- Of a job that is ready with this token; whoever claims it gives it another, and that ends it.
CREATE TABLE limpet.reservation (
    server text COLLATE "C" PRIMARY KEY,
    job text COLLATE "C" NOT NULL,   -- nothing else is admitted there until it begins
    token bigint NOT NULL,
    at bigint NOT NULL               -- when a claim last met it
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.host (
    server text COLLATE "C" PRIMARY KEY,
    body text NOT NULL,              -- JSON
    at bigint NOT NULL,
    until bigint NOT NULL            -- it is gone if it says nothing before that
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

CREATE TABLE limpet.sample (
    server text COLLATE "C" NOT NULL,
    span text COLLATE "C" NOT NULL,  -- second or minute
    at bigint NOT NULL,
    body text NOT NULL,              -- JSON
    PRIMARY KEY (server, span, at)
);
CREATE INDEX sample_old ON limpet.sample (span, at);
