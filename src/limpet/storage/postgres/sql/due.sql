-- due: what becomes due with time (the functions due, lapse, relaunch and remove move jobs).
-- purpose: find jobs that are too late; remove sessions that nobody needs.
-- params:  by name.
-- returns: late: waiting jobs that are too late, locked.
--          left: whether something is left to do now, and when to come back.
--          old_sessions: sessions that can be removed, locked.

-- statement: late
SELECT * FROM (
    SELECT id, expires_at, deadline_at FROM limpet.ready
    WHERE LEAST(expires_at, deadline_at) <= %(now)s
    ORDER BY LEAST(expires_at, deadline_at) LIMIT %(limit)s FOR UPDATE SKIP LOCKED) ready
UNION ALL
SELECT * FROM (
    SELECT id, expires_at, deadline_at FROM limpet.parked
    WHERE LEAST(expires_at, deadline_at) <= %(now)s AND state <> 'quarantined'
    ORDER BY LEAST(expires_at, deadline_at) LIMIT %(limit)s FOR UPDATE SKIP LOCKED) parked
LIMIT %(limit)s

-- statement: left
SELECT EXISTS (SELECT FROM limpet.flow WHERE committed_at IS NOT NULL AND NOT written)
       OR EXISTS (SELECT FROM limpet.note),
       LEAST(
    (SELECT min(ready_at) FROM limpet.parked WHERE state = 'scheduled'),
    (SELECT min(LEAST(expires_at, deadline_at)) FROM limpet.parked
     WHERE LEAST(expires_at, deadline_at) IS NOT NULL AND state <> 'quarantined'),
    (SELECT min(LEAST(expires_at, deadline_at)) FROM limpet.ready
     WHERE LEAST(expires_at, deadline_at) IS NOT NULL),
    (SELECT min(at) FROM limpet.relaunch),
    (SELECT min(next_at) FROM limpet.key WHERE next_at IS NOT NULL))

-- statement: old_sessions
SELECT s.id FROM limpet.session s
WHERE s.state = 'dead' AND s.ended_at < %(ended_before)s
  AND NOT EXISTS (SELECT 1 FROM limpet.running r WHERE r.session = s.id)
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED

-- statement: alone
-- Waits for sessions that are just being registered, so that the next statements see the tasks they need.
SELECT pg_advisory_xact_lock(hashtextextended('limpet.taskset', 0))

-- statement: forget_holds
DELETE FROM limpet.hold WHERE session = ANY (limpet.v1_column(%(ids)s))

-- statement: forget_sessions
DELETE FROM limpet.session WHERE id = ANY (limpet.v1_column(%(ids)s))

-- statement: forget_tasksets
DELETE FROM limpet.taskset t
WHERE NOT EXISTS (SELECT 1 FROM limpet.session s WHERE s.tasks = t.digest)
  -- Pools that cannot be read may name any digest.
  AND NOT EXISTS (SELECT 1 FROM limpet.session s WHERE NOT limpet.v1_is_json(s.pools))
  AND NOT EXISTS (
      SELECT 1 FROM limpet.session s CROSS JOIN json_array_elements_text(limpet.v1_pools(s.pools)) p
      WHERE p.value = t.digest)
