-- enqueue: write new jobs.
-- purpose: (nothing) to ready or scheduled; an id that is there stays as it is.
-- params:  insert_job and insert_payload take a tuple in the order of their columns;
--          known takes :ids, a JSON list of ids; waiting takes :queue.
-- returns: last the highest number so far, and whether the store is closed; known one row for each id that is there; waiting the
--          length of the queue.

-- statement: insert_job
INSERT INTO limpet_job (
    n, id, task, queue, state, priority, sort_key, ready_at, created_at,
    expires_at, deadline_at, lapses_at, key, unique_key, parent, root,
    weight_class, payload_version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- statement: last
SELECT coalesce(max(n), 0), (SELECT closed FROM limpet_store) FROM limpet_job

-- statement: insert_payload
INSERT INTO limpet_payload (n, args, options, secrets) VALUES (?, ?, ?, ?)

-- statement: known
SELECT id, n, state FROM limpet_job WHERE id IN (SELECT value FROM json_each(:ids))

-- statement: waiting
SELECT coalesce(sum(jobs), 0) FROM limpet_gauge
WHERE queue = :queue AND state IN ('ready', 'scheduled', 'blocked')
