-- inspect: the statements behind the reading verbs.
-- purpose: show jobs, events, queues, sessions and totals; they only read.
-- params:  by name; a filter that is NULL lets everything pass.
-- returns: rows in the order that storage/sql/rows.py reads.

-- statement: job
SELECT * FROM limpet_job_view WHERE id = :id

-- statement: jobs
SELECT * FROM limpet_job_view
WHERE n < :before
  AND (:queue IS NULL OR queue = :queue)
  AND (:task IS NULL OR task = :task)
ORDER BY n DESC
LIMIT :limit

-- statement: jobs_running
SELECT * FROM limpet_job_view
WHERE n IN (
    SELECT n FROM limpet_job INDEXED BY limpet_job_held
    WHERE state = 'running' AND session > '' AND n < :before
      AND (:queue IS NULL OR queue = :queue)
      AND (:task IS NULL OR task = :task)
    ORDER BY n DESC
    LIMIT :limit)
ORDER BY n DESC

-- statement: jobs_in_state
SELECT * FROM limpet_job_view
WHERE state = :state AND state <> 'running' AND n < :before
  AND (:queue IS NULL OR queue = :queue)
  AND (:task IS NULL OR task = :task)
ORDER BY n DESC
LIMIT :limit

-- statement: states
SELECT id, state FROM limpet_job WHERE id IN (SELECT value FROM json_each(:ids))

-- statement: events
SELECT v.at, v.event, v.session, v.token, v.cause, v.claimed_at
FROM limpet_event v JOIN limpet_job j ON j.n = v.n
WHERE j.id = :id ORDER BY v.e

-- statement: latest_events
SELECT j.id, j.task, j.queue, v.at, v.event, v.session, v.token, v.cause, v.claimed_at
FROM limpet_event v CROSS JOIN limpet_job j ON j.n = v.n
WHERE v.e < :before
ORDER BY v.e DESC
LIMIT :limit

-- statement: log
SELECT l.at, l.level, l.message FROM limpet_log l JOIN limpet_job j ON j.n = l.n
WHERE j.id = :id ORDER BY l.l

-- statement: queues
SELECT g.queue, g.state, g.jobs, coalesce(q.paused, 0), q.declared, q.adjusted,
       coalesce(q.held_until, 0), coalesce(q.given_until, 0), coalesce(q.draining, 0)
FROM limpet_gauge g LEFT JOIN limpet_queue q ON q.name = g.queue
ORDER BY g.queue, g.state

-- statement: head
SELECT sort_key, ready_at FROM limpet_job
WHERE queue = :queue AND state = 'ready' AND task = :task AND suspect = :suspect
ORDER BY sort_key, n
LIMIT 1

-- statement: sessions
SELECT id, kind, name, host, pid, lease, state, moment, boot, seq, held_count, registered_at,
       renewed_at, ended_at, cause, lock, schedules
FROM limpet_session
WHERE (:with_dead OR state <> 'dead') AND (:one IS NULL OR id = :one)
ORDER BY registered_at DESC, id DESC

-- statement: totals
SELECT queue, move, count FROM limpet_total ORDER BY queue, move

-- statement: store
SELECT epoch, version, oldest_allowed, newest_allowed FROM limpet_store
