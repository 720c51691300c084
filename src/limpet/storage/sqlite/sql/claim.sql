-- claim: take ready jobs for a session.
-- purpose: ready to running, with the next token; jobs whose task no live session knows to blocked.
-- params:  by name; :numbers is a JSON list of the jobs' numbers. Others take tuples.
-- returns: queues: for each queue that has ready jobs and is not paused: its name, the number of these
--              jobs, whether any queue has a weight, and the queue's settings.
--          tasks: for each task of a queue's ready jobs (found by one step in the index): its name,
--              whether the pool can run it, and whether any live session knows it.
--          candidates: two JSON lists, sort keys and numbers, in order.
--          taken: a JSON list with what the holder needs to run each job, in the order of ClaimedJob,
--              without jobs whose payload has more than :most bytes or cannot be listed; and the number
--              of all jobs.
--          taken_alone: the same columns for one job, texts as bytes.
--          strangers: the numbers of jobs of a task that no live session knows.
-- why:     a list in one row, because the interpreter's lock changes hands for each row.

-- statement: queues
SELECT g.queue, g.jobs,
       EXISTS (SELECT 1 FROM limpet_queue s INDEXED BY limpet_queue_weighted WHERE s.weighted = 1),
       q.held_until, q.given_until, q.declared, q.adjusted, q.pace,
       CASE WHEN q.concurrency IS NOT NULL THEN (
           SELECT r.jobs FROM limpet_gauge r WHERE r.queue = g.queue AND r.state = 'running') END
FROM limpet_gauge g
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
SELECT json_group_array(sort_key), json_group_array(n) FROM (
    SELECT sort_key, n FROM limpet_job
    WHERE queue = :queue AND state = 'ready' AND task = :task AND suspect = :suspect
      AND (lapses_at IS NULL OR lapses_at > :now)
    ORDER BY sort_key, n
    LIMIT :limit)

-- statement: take
UPDATE limpet_job
SET state = 'running', token = token + 1, session = :session, claimed_at = :now, begun = 0,
    lapses_at = NULL
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: taken
SELECT json_group_array(json_array(
           json_array(j.id, j.session, j.token), j.task, j.queue, j.failures + j.orphans + 1,
           j.round, json_array(j.failures, j.orphans, j.strikes), j.suspect, j.last_run,
           j.payload_version, p.args, p.options, json(p.secrets), j.deadline_at))
           FILTER (WHERE octet_length(p.args) + octet_length(p.options) <= :most
                     AND (p.secrets = '[]' OR json_valid(p.secrets))),
       count(*)
FROM json_each(:numbers) e
CROSS JOIN limpet_job j ON j.n = e.value
LEFT JOIN limpet_payload p ON p.n = j.n
WHERE j.state = 'running' AND j.session = :session

-- statement: taken_alone
SELECT j.id, j.session, j.token, j.task, j.queue, j.failures + j.orphans + 1, j.round, j.failures,
       j.orphans, j.strikes, j.suspect, j.last_run, j.payload_version, CAST(p.args AS BLOB),
       CAST(p.options AS BLOB), CAST(p.secrets AS BLOB), j.deadline_at
FROM limpet_job j
LEFT JOIN limpet_payload p ON p.n = j.n
WHERE j.n = :n AND j.state = 'running' AND j.session = :session

-- statement: strangers
SELECT n FROM limpet_job
WHERE queue = :queue AND state = 'ready' AND task = :task
LIMIT :limit

-- statement: block
UPDATE limpet_job SET state = 'blocked' WHERE n = ?

-- statement: block_reason
INSERT INTO limpet_blocked (n, reason, what, since) VALUES (?, 'task', ?, ?)
