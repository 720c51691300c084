-- version: the version of the file, and the boots that have used it.
-- purpose: check before the first use, stamp after a migration.
-- params:  by name.
-- returns: before_release: a row if the store is from before the first release.
--          versions: version of the schema, oldest and newest version that may use it.
--          foreign: sessions of other boots that nobody has marked dead.

-- statement: before_release
SELECT name FROM pragma_table_info('limpet_store', 'main') WHERE name = 'schema_version'

-- statement: versions
SELECT version, oldest_allowed, newest_allowed FROM limpet_store

-- statement: stamp
INSERT INTO limpet_store (only, epoch, version, oldest_allowed, newest_allowed, created_at)
VALUES (1, :epoch, :version, :oldest, :version, :now)
ON CONFLICT (only) DO UPDATE SET version = excluded.version,
    oldest_allowed = excluded.oldest_allowed, newest_allowed = excluded.newest_allowed

-- statement: foreign
SELECT id, renewals, renewed_at, lease FROM limpet_session
WHERE state <> 'dead' AND boot <> :boot
