-- breakers: they hold the work of some tasks back (claims read them, see functions/24_limits.sql).
-- purpose: keep the rules and the state of breakers.
-- params:  by name; piece is JSON, see records/store_settings.py.
-- returns: all: names and pieces.
--          lock: a piece, locked.

-- statement: alone
-- Transactions that declare breakers run one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('limpet.breaker', 0))

-- statement: all
SELECT name, piece FROM limpet.breaker ORDER BY name

-- statement: lock
SELECT piece FROM limpet.breaker WHERE name = %(name)s FOR UPDATE

-- statement: write
INSERT INTO limpet.breaker (name, piece, tasks, state, probe_at, probe_after)
VALUES (%(name)s, %(piece)s, %(tasks)s::text[], %(state)s, %(probe_at)s, %(probe_after)s)
ON CONFLICT (name) DO UPDATE
SET piece = excluded.piece, tasks = excluded.tasks, state = excluded.state,
    probe_at = excluded.probe_at, probe_after = excluded.probe_after
