-- claim: take ready jobs for a session.
-- purpose: ready to running, with the next token; jobs whose task nobody knows to blocked.
-- params:  by name, take a tuple.
-- returns: candidates: number and sort key, in order; take: what the holder needs to run it;
--          queues: names of queues with ready jobs that are not paused.

-- statement: queues
SELECT g.queue FROM limpet_gauge g
LEFT JOIN limpet_queue q ON q.name = g.queue
WHERE g.state = 'ready' AND g.jobs > 0 AND coalesce(q.paused, 0) = 0

-- statement: candidates
SELECT n, sort_key FROM limpet_job
WHERE queue = :queue AND state = 'ready' AND suspect = :suspect
  AND (lapses_at IS NULL OR lapses_at > :now)
  AND task IN (SELECT task FROM limpet_taskset WHERE digest = :tasks)
ORDER BY sort_key, n
LIMIT :limit

-- statement: take
UPDATE limpet_job
SET state = 'running', token = token + 1, session = ?, claimed_at = ?, begun = 0, lapses_at = NULL
WHERE n = ?

-- statement: taken
SELECT j.id, j.token, j.task, j.queue, j.round, j.failures, j.orphans, j.strikes, j.suspect,
       j.last_run, j.payload_version, j.deadline_at, p.args, p.options, p.secrets
FROM json_each(:numbers) e
CROSS JOIN limpet_job j ON j.n = e.value
CROSS JOIN limpet_payload p ON p.n = j.n
WHERE j.state = 'running' AND j.session = :session
ORDER BY e.key

-- statement: strangers
SELECT n, task FROM limpet_job
WHERE queue = :queue AND state = 'ready'
  AND task NOT IN (
      SELECT t.task FROM limpet_taskset t
      WHERE t.digest IN (SELECT s.tasks FROM limpet_session s WHERE s.state <> 'dead'))
LIMIT :limit

-- statement: block
UPDATE limpet_job SET state = 'blocked' WHERE n = ?

-- statement: block_reason
INSERT INTO limpet_blocked (n, reason, what, since) VALUES (?, 'task', ?, ?)
