-- session: begin, look up, renew and end sessions.
-- purpose: one row for each incarnation of a worker; its lease is one write.
-- params:  by name; times in microseconds, :moment and :now_lease on the lease clock.
-- returns: find: the session's row, and the stage of a closed store.
--          cancels: the session's jobs whose cancellation is requested.
--          paused: the queues that are paused.
--          held: the jobs that the session holds.
--          unblock: jobs that are blocked for a task that the session knows.

-- statement: insert
INSERT INTO limpet_session (
    id, kind, name, host, pid, boot, lease, state, moment, tasks, pools, lock, schedules,
    registered_at, renewed_at)
VALUES (:id, :kind, :name, :host, :pid, :boot, :lease, 'live', :moment, :tasks, :pools, :lock,
    :schedules, :now, :now)

-- statement: know_task
INSERT INTO limpet_taskset (digest, task) VALUES (?, ?) ON CONFLICT DO NOTHING

-- statement: find
SELECT state, boot, moment, lease, seq, held_count, held_total, tasks,
       (SELECT closed FROM limpet_store)
FROM limpet_session WHERE id = :id

-- statement: renew
UPDATE limpet_session
SET moment = :moment, renewed_at = :now, renewals = renewals + 1,
    state = CASE WHEN :draining THEN 'draining' ELSE state END
WHERE id = :id AND state <> 'dead' AND (moment > :now_lease OR :stepped)

-- statement: end
UPDATE limpet_session SET state = 'dead', ended_at = :now, cause = :cause
WHERE id = :id AND state <> 'dead'

-- statement: cancels
SELECT id, token FROM limpet_job
WHERE session = :session AND state = 'running' AND cancel_requested_at IS NOT NULL
LIMIT :limit

-- statement: paused
SELECT name FROM limpet_queue WHERE paused = 1 ORDER BY name

-- statement: held
SELECT id, token FROM limpet_job WHERE session = :session AND state = 'running' ORDER BY n

-- statement: hold
UPDATE limpet_session
SET held_count = held_count + :count, held_total = (held_total + :total) & 281474976710655
WHERE id = :session

-- statement: unblock
SELECT b.n, j.queue, j.state, j.key, j.turn, j.sort_key
FROM limpet_blocked b JOIN limpet_job j ON j.n = b.n
WHERE b.reason = 'task' AND b.what IN (SELECT task FROM limpet_taskset WHERE digest = :tasks)
LIMIT :limit

-- statement: forget_block
DELETE FROM limpet_blocked WHERE n = ?
