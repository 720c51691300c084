-- version: whether the schema exists, which version it has, and how it is created.
-- purpose: check before the first use, stamp after a migration.
-- params:  by name.
-- returns: there: whether the schema exists; whether its tables exist; whether they are those of a store of
--          before the first release.
--          versions: version of the schema, oldest and newest version allowed, epoch.
--          functions: which release wrote them, and a digest of their text.

-- statement: there
-- Read from the tables of the catalog: a lookup by name may not yet see what another transaction has created
-- while this one waited for the lock.
SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = %(schema)s),
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = %(schema)s AND c.relname = 'store'),
       EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
               JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = %(schema)s AND c.relname = 'store' AND a.attname = 'schema_version'
                 AND NOT a.attisdropped)

-- statement: versions
SELECT version, oldest_allowed, newest_allowed, epoch FROM limpet.store

-- statement: functions
SELECT obj_description(to_regprocedure('limpet.v1_time(bigint)'), 'pg_proc')

-- statement: sign_functions
COMMENT ON FUNCTION limpet.v1_time(bigint) IS {signature}

-- statement: brief
-- While this waits for a lock, all later transactions wait behind it, workers too; so it never waits long.
SELECT set_config('lock_timeout', %(lock)s, true)

-- statement: alone
-- Migrations of one schema run one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('limpet schema ' || %(schema)s, 0))

-- statement: stamp
INSERT INTO limpet.store (one, epoch, version, oldest_allowed, newest_allowed, created_at)
VALUES (1, %(epoch)s, %(version)s, %(oldest)s, %(version)s, limpet.v1_time(%(wall)s))
ON CONFLICT (one) DO UPDATE SET version = excluded.version,
    oldest_allowed = excluded.oldest_allowed, newest_allowed = excluded.newest_allowed
