-- relocate: a store that moves to another place; see storage/contract/relocation.py.
-- purpose: close a store for all writers (see pass), and open it again.
-- params:  by name.
-- returns: record: the store's part in a move, and the cursor.
--          in_the_way: how many jobs run, how many jobs there are, how many sessions are not dead.

-- statement: soon
-- While this waits for the lock, all others wait behind it, renewals too; so it gives up and tries again.
SELECT set_config('lock_timeout', '300', true)

-- statement: alone
SELECT pg_advisory_xact_lock(hashtextextended('limpet.move', 0))

-- statement: record
SELECT relocation, cursor FROM limpet.store

-- statement: in_the_way
-- Committed flows that are not written out, and descendants that must be cancelled, count as running.
SELECT (SELECT count(*) FROM limpet.running)
       + (SELECT count(*) FROM limpet.flow WHERE committed_at IS NOT NULL AND NOT written)
       + (SELECT count(*) FROM limpet.note WHERE kind <> 'key'), (SELECT count(*) FROM limpet.job),
       (SELECT count(*) FROM limpet.session WHERE state <> 'dead')

-- statement: write
UPDATE limpet.store SET closed = %(closed)s, relocation = %(record)s, cursor = NULL
