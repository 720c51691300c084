-- 0007_gate: permits of hosts, and what hosts say of themselves.
-- Times are wall time in whole microseconds; cpu is in thousandths of a core, memory in bytes.

CREATE TABLE limpet_permit (
    holder TEXT PRIMARY KEY,         -- a job that runs, or a session of the kind permit
    n INTEGER,                       -- that job's number
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
    n INTEGER NOT NULL,              -- the job for which nothing else is admitted there
    token INTEGER NOT NULL,          -- that of the job: a claim, by whomever, ends it
    at INTEGER NOT NULL              -- when a claim last met it
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_host (
    server TEXT PRIMARY KEY,
    body TEXT NOT NULL,              -- JSON
    at INTEGER NOT NULL,
    until INTEGER NOT NULL           -- it is gone if it says nothing before that
) STRICT, WITHOUT ROWID;

CREATE TABLE limpet_sample (
    server TEXT NOT NULL,
    span TEXT NOT NULL,              -- second or minute
    at INTEGER NOT NULL,
    body TEXT NOT NULL,              -- JSON
    PRIMARY KEY (server, span, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX limpet_sample_old ON limpet_sample (span, at);
