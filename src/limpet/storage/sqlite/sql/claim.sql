-- claim: take ready jobs for a session.
-- purpose: ready to running, with the next token; jobs whose task nobody knows to blocked.
-- params:  by name, take a tuple.
-- returns: queues: names of queues with ready jobs that are not paused; tasks: those of a queue's
--          ready jobs, each found by one step in the index, and whether the pool can run it and
--          whether any live session knows it; candidates: number and sort key, in order; taken:
--          what the holder needs to run it.

-- statement: queues
SELECT g.queue FROM limpet_gauge g
LEFT JOIN limpet_queue q ON q.name = g.queue
WHERE g.state = 'ready' AND g.jobs > 0 AND coalesce(q.paused, 0) = 0

-- statement: tasks
WITH RECURSIVE there (task) AS (
    SELECT min(task) FROM limpet_job WHERE queue = :queue AND state = 'ready'
    UNION ALL
    SELECT (SELECT min(j.task) FROM limpet_job j
            WHERE j.queue = :queue AND j.state = 'ready' AND j.task > there.task)
    FROM there WHERE there.task IS NOT NULL)
SELECT task,
       EXISTS (SELECT 1 FROM limpet_taskset t WHERE t.digest = :tasks AND t.task = there.task),
       EXISTS (SELECT 1 FROM limpet_session s
               JOIN limpet_taskset t ON t.digest = s.tasks AND t.task = there.task
               WHERE s.state <> 'dead')
FROM there WHERE task IS NOT NULL

-- statement: candidates
SELECT n, sort_key FROM limpet_job
WHERE queue = :queue AND state = 'ready' AND task = :task AND suspect = :suspect
  AND (lapses_at IS NULL OR lapses_at > :now)
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
SELECT n FROM limpet_job
WHERE queue = :queue AND state = 'ready' AND task = :task
LIMIT :limit

-- statement: block
UPDATE limpet_job SET state = 'blocked' WHERE n = ?

-- statement: block_reason
INSERT INTO limpet_blocked (n, reason, what, since) VALUES (?, 'task', ?, ?)
