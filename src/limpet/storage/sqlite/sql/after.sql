-- after: the consequences of jobs that left running or reached a final state.
-- purpose: give turns to the next in line, count parents down, stop children of parents that are gone.
-- params:  by name; :numbers and :ids are JSON lists. gone and waits_no_more take a number.
-- returns: bounded: a row if any queue has a concurrency.
--          left: those of the jobs that have a turn, a parent or children.
--          parents: those of the ids that wait for children.
--          next_gone: a parent that is gone and may still have children to stop.
--          unfinished: those children.

-- statement: bounded
SELECT 1 FROM limpet_queue INDEXED BY limpet_queue_bounded WHERE concurrency IS NOT NULL LIMIT 1

-- statement: left
SELECT j.n, j.id, j.state, j.key, j.turn, j.parent, j.round, j.pending, j.rules
FROM json_each(:numbers) e
CROSS JOIN limpet_job j ON j.n = e.value
WHERE j.turn > 0 OR j.parent IS NOT NULL OR j.pending > 0

-- statement: give_back
UPDATE limpet_job SET turn = 0 WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: parents
SELECT id, n, queue, pending, key, sort_key FROM limpet_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'blocked' AND pending > 0

-- statement: pending
UPDATE limpet_job SET pending = :pending WHERE n = :n

-- statement: abandon
UPDATE limpet_job SET state = 'failed', finished_at = :now, lapses_at = NULL WHERE n = :n

-- statement: gone
INSERT INTO limpet_gone (n) VALUES (?) ON CONFLICT (n) DO NOTHING

-- statement: waits_no_more
UPDATE limpet_job SET pending = 0 WHERE n = ?

-- statement: next_gone
SELECT g.n, j.id, g.passed FROM limpet_gone g JOIN limpet_job j ON j.n = g.n ORDER BY g.n LIMIT 1

-- statement: gone_no_more
DELETE FROM limpet_gone WHERE n = :n

-- statement: gone_so_far
UPDATE limpet_gone SET passed = :passed WHERE n = :n

-- statement: unfinished
SELECT n, queue, state, session, token, claimed_at
FROM limpet_job INDEXED BY limpet_job_child
WHERE parent = :parent AND parent IS NOT NULL AND n > :passed
  AND finished_at IS NULL AND cancel_requested_at IS NULL
ORDER BY n
LIMIT :limit
