-- enqueue: write new jobs.
-- purpose: (nothing) to ready, scheduled or blocked; a job whose id is there stays as it is.
-- params:  the insertions: a tuple in the order of their columns.
--          known: :ids, a JSON list of ids.
--          waiting: :queue.
-- returns: last: the highest number so far, the stage of a closed store, and whether any queue is
--              drained.
--          draining: the queues that are drained.
--          known: one row for each id that is there.
--          waiting: the number of jobs that wait in the queue, including those of committed flows.

-- statement: insert_job
INSERT INTO limpet_job (
    n, id, task, queue, state, priority, sort_key, ready_at, created_at,
    expires_at, deadline_at, lapses_at, key, unique_key, parent, root,
    weight_class, payload_version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- statement: insert_shaped
INSERT INTO limpet_job (
    n, id, task, queue, state, priority, sort_key, ready_at, created_at,
    expires_at, deadline_at, lapses_at, key, unique_key, parent, root,
    weight_class, payload_version, turn, pending, sole, rules)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- statement: last
SELECT coalesce(max(n), 0), (SELECT closed FROM limpet_store),
       EXISTS (SELECT 1 FROM limpet_queue INDEXED BY limpet_queue_draining WHERE draining = 1)
FROM limpet_job

-- statement: draining
SELECT name FROM limpet_queue INDEXED BY limpet_queue_draining WHERE draining = 1

-- statement: insert_payload
INSERT INTO limpet_payload (n, args, options, secrets) VALUES (?, ?, ?, ?)

-- statement: known
SELECT id, n, state FROM limpet_job WHERE id IN (SELECT value FROM json_each(:ids))

-- statement: waiting
SELECT (
    SELECT coalesce(sum(jobs), 0) FROM limpet_gauge
    WHERE queue = :queue AND state IN ('ready', 'scheduled', 'blocked'))
+ (
    SELECT coalesce(sum(q.value), 0)
    FROM limpet_flow f INDEXED BY limpet_flow_open
    CROSS JOIN limpet_staged s ON s.flow = f.flow AND s.place >= f.written AND s.place < f.chunks
    CROSS JOIN json_each(CASE WHEN json_valid(s.queues) THEN s.queues ELSE '{}' END) q
        ON q.key = :queue
    WHERE f.whole = 0)
