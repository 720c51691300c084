-- version: whether the schema is there, which version it has, and how it is made.
-- purpose: check before the first use, stamp after a migration.
-- params:  by name.
-- returns: there: whether the schema and its tables are there; versions: schema version, oldest and
--          newest version allowed.

-- statement: there
SELECT to_regnamespace(%(schema)s) IS NOT NULL, to_regclass(%(table)s) IS NOT NULL

-- statement: versions
SELECT schema_version, oldest_allowed, newest_allowed, epoch FROM limpet.store

-- statement: functions
-- Of this version's functions, which Limpet wrote them, and a digest of their text.
SELECT obj_description(to_regprocedure('limpet.v1_time(bigint)'), 'pg_proc')

-- statement: sign_functions
COMMENT ON FUNCTION limpet.v1_time(bigint) IS {signature}

-- statement: brief
-- Whoever waits for a lock makes all wait that come after, workers too; so it is never for long.
SELECT set_config('lock_timeout', %(lock)s, true)

-- statement: alone
-- Two that migrate at the same time take turns.
SELECT pg_advisory_xact_lock(hashtextextended('limpet schema ' || %(schema)s, 0))

-- statement: stamp
INSERT INTO limpet.store (one, epoch, schema_version, oldest_allowed, newest_allowed, created_at)
VALUES (1, %(epoch)s, %(version)s, %(oldest)s, %(version)s, limpet.v1_time(%(wall)s))
ON CONFLICT (one) DO UPDATE SET schema_version = excluded.schema_version,
    oldest_allowed = excluded.oldest_allowed, newest_allowed = excluded.newest_allowed
