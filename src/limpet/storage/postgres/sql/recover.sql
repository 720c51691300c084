-- recover: mark sessions dead and take their jobs back.
-- purpose: live or draining to dead when the moment is over; running to ready, failed or cancelled
--          for the jobs of a dead session (moved by shift).
-- params:  by name.
--          overdue_at: a time on the lease clock.
--          longest: the longest lease that is looked at, in microseconds; NULL for no limit. A lease that
--          is out of range counts as the default.
--          given: the time, or NULL for the server's clock.
-- returns: overdue: sessions to mark, locked; a session whose row is in use is left to the next sweep.
--          shorten: nothing. Where the clock has been set back since a lease was given, that lease ends
--          one lease from now.
--          widowed: dead sessions with jobs.
--          outlook: the lease time, when the server started, the earliest moment of a session that is
--          not dead, and whether a dead session has jobs.
--          dead: why a session died.
--          orphans: its jobs, as fence.holding lists them.
--          time: the time.

-- statement: overdue
SELECT id, renewed_at FROM limpet.session
WHERE state <> 'dead' AND moment <= %(overdue_at)s
  AND (%(longest)s::bigint IS NULL OR %(longest)s::bigint >=
       CASE WHEN lease <= 3162240000000000 THEN lease ELSE 10000000 END)
ORDER BY id
FOR UPDATE SKIP LOCKED

-- statement: shorten
UPDATE limpet.session SET moment = limpet.v1_time(%(given)s) + least(lease, 3162240000000000)
WHERE state <> 'dead' AND moment > limpet.v1_time(%(given)s) + least(lease, 3162240000000000)

-- statement: widowed
SELECT s.id FROM limpet.session s
WHERE s.state = 'dead' AND EXISTS (SELECT 1 FROM limpet.running r WHERE r.session = s.id)
ORDER BY s.id

-- statement: outlook
SELECT limpet.v1_time(%(given)s), pg_postmaster_start_time()::text,
       (SELECT min(moment) FROM limpet.session
        WHERE state <> 'dead' AND (%(longest)s::bigint IS NULL OR %(longest)s::bigint >=
       CASE WHEN lease <= 3162240000000000 THEN lease ELSE 10000000 END)),
       EXISTS (SELECT 1 FROM limpet.session s
               WHERE s.state = 'dead'
                 AND EXISTS (SELECT 1 FROM limpet.running r WHERE r.session = s.id))

-- statement: dead
SELECT s.cause FROM limpet.session s JOIN limpet.hold h ON h.session = s.id
WHERE s.id = %(session)s AND s.state = 'dead'
FOR UPDATE OF h

-- statement: orphans
SELECT r.id, r.token, r.n, r.queue, r.sort_key, r.ready_at, r.failures, r.orphans, r.strikes,
       r.last_run, r.begun, r.claimed_at, r.deadline_at, r.cancel_requested_at, r.priority,
       r.suspect, r.expires_at, j.options,
       (SELECT v.cause FROM limpet.event v
        WHERE r.cancel_requested_at IS NOT NULL AND v.id = r.id AND v.event = 'cancel_requested'
          AND v.cause IS NOT NULL
        ORDER BY v.e DESC LIMIT 1)
FROM limpet.running r JOIN limpet.job j ON j.id = r.id
WHERE r.session = %(session)s
ORDER BY r.id
LIMIT %(limit)s
FOR UPDATE OF r


-- statement: time
SELECT limpet.v1_time(%(given)s)
