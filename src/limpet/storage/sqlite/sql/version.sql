-- version: which version the file has, and whose it is.
-- purpose: check before the first use, stamp after a migration.
-- params:  by name.
-- returns: versions: schema version, oldest and newest version allowed; foreign: sessions of
--          other boots that nobody has marked dead.

-- statement: versions
SELECT schema_version, oldest_allowed, newest_allowed FROM limpet_store

-- statement: stamp
INSERT INTO limpet_store (only, epoch, schema_version, oldest_allowed, newest_allowed, created_at)
VALUES (1, :epoch, :version, :oldest, :version, :now)
ON CONFLICT (only) DO UPDATE SET schema_version = excluded.schema_version,
    oldest_allowed = excluded.oldest_allowed, newest_allowed = excluded.newest_allowed

-- statement: foreign
SELECT id, renewals, renewed_at, lease FROM limpet_session
WHERE state <> 'dead' AND boot <> :boot
