-- recover: mark sessions dead and take their jobs back.
-- purpose: live or draining to dead when the moment is over or the boot is another; running to
--          ready, failed or cancelled for the jobs of a dead session (moved by settle.sql).
-- params:  by name; :longest is a lease in microseconds, NULL for no limit; an unreadable lease counts
--          as the default one.
-- returns: overdue: sessions to mark dead.
--          shorten: nothing; leases from a clock that has been set back since now end one lease from now.
--          foreign: live sessions of other boots.
--          widowed: dead sessions with running jobs.
--          next_moment: when the next lease ends.
--          dead: the cause of a dead session.
--          orphans: the running jobs of a dead session.

-- statement: overdue
SELECT id, renewed_at FROM limpet_session
WHERE state <> 'dead' AND boot = :boot AND moment <= :now_lease
  AND (:longest IS NULL OR :longest >=
       CASE WHEN typeof(lease) = 'integer' AND lease <= 3162240000000000 THEN lease ELSE 10000000 END)

-- statement: shorten
UPDATE limpet_session SET moment = :now_lease + min(lease, 3162240000000000)
WHERE state <> 'dead' AND boot = :boot AND moment > :now_lease + min(lease, 3162240000000000)

-- statement: foreign
SELECT id, boot FROM limpet_session WHERE state <> 'dead' AND boot <> :boot

-- statement: widowed
SELECT s.id FROM limpet_session s
WHERE s.state = 'dead'
  AND EXISTS (SELECT 1 FROM limpet_job j WHERE j.session = s.id AND j.state = 'running')

-- statement: next_moment
SELECT min(CASE WHEN boot = :boot THEN moment ELSE 0 END) FROM limpet_session
WHERE state <> 'dead' AND (:longest IS NULL OR :longest >=
       CASE WHEN typeof(lease) = 'integer' AND lease <= 3162240000000000 THEN lease ELSE 10000000 END)

-- statement: dead
SELECT cause, renewed_at FROM limpet_session WHERE id = :session AND state = 'dead'

-- statement: orphans
SELECT j.id, j.token, j.n, j.queue, j.sort_key, j.ready_at, j.failures, j.orphans, j.strikes,
       j.last_run, j.begun, j.claimed_at, j.deadline_at, j.cancel_requested_at, j.priority,
       j.suspect, j.expires_at
FROM limpet_job j
WHERE j.session = :session AND j.state = 'running'
ORDER BY j.n
LIMIT :limit
