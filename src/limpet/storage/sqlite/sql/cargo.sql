-- cargo: jobs on their way to another store, or from one.
-- purpose: read them with everything about them, or write them as they were.
-- params:  by name; :after is a number, :first and :last are those of a cargo. The insertions take a
--          tuple in the order of their columns.
-- returns: sizes: numbers of jobs, and the bytes of each.
--          jobs: columns in the order of Parcel.
--          events, lines: columns in the order of CarriedEvent and CarriedLine.
--          counts, queues: fields of a Manifest.
--          some: number, queue and state of the first jobs.

-- statement: sizes
SELECT j.n,
       octet_length(p.args) + octet_length(p.options) + coalesce(octet_length(r.value), 0)
       + coalesce(octet_length(r.error), 0)
       + (SELECT coalesce(sum(octet_length(v.cause)), 0) FROM limpet_event v WHERE v.n = j.n)
       + (SELECT coalesce(sum(octet_length(l.message)), 0) FROM limpet_log l WHERE l.n = j.n)
FROM limpet_job j
CROSS JOIN limpet_payload p ON p.n = j.n
LEFT JOIN limpet_result r ON r.n = j.n
WHERE j.n > :after
ORDER BY j.n
LIMIT :limit

-- statement: jobs
SELECT j.n, j.id, j.task, j.queue, j.state, j.priority, j.ready_at, j.suspect, j.last_run, j.round,
       j.token, j.session, j.failures, j.orphans, j.strikes, j.created_at, j.claimed_at,
       j.finished_at, j.cancel_requested_at, j.expires_at, j.deadline_at, j.key, j.unique_key,
       j.parent, j.root, j.weight_class, j.payload_version, p.args, p.options, p.secrets, r.value,
       nullif(r.secrets, '[]'), r.error,
       CASE WHEN j.turn = 2 THEN 'key:' || j.key
            WHEN j.pending > 0 THEN 'children:'
            ELSE (SELECT b.reason || ':' || b.what FROM limpet_blocked b WHERE b.n = j.n LIMIT 1)
       END,
       g.token, g.done, g.total, g.note, g.at, j.rules, j.pending, j.relaunch_at, j.turn = 1
FROM limpet_job j
CROSS JOIN limpet_payload p ON p.n = j.n
LEFT JOIN limpet_result r ON r.n = j.n
LEFT JOIN limpet_progress g ON g.n = j.n
WHERE j.n BETWEEN :first AND :last
ORDER BY j.n

-- statement: events
SELECT j.id, v.at, v.event, v.session, v.token, v.cause, v.claimed_at, v.settled
FROM limpet_job j CROSS JOIN limpet_event v ON v.n = j.n
WHERE j.n BETWEEN :first AND :last
ORDER BY j.n, v.e

-- statement: lines
SELECT j.id, l.at, l.level, l.message
FROM limpet_job j CROSS JOIN limpet_log l ON l.n = j.n
WHERE j.n BETWEEN :first AND :last
ORDER BY j.n, l.l

-- statement: counts
SELECT queue, state, count(*) FROM limpet_job GROUP BY queue, state ORDER BY queue, state

-- statement: queues
SELECT DISTINCT queue FROM limpet_gauge ORDER BY queue

-- statement: insert_job
INSERT INTO limpet_job (
    n, id, task, queue, state, priority, sort_key, ready_at, suspect, last_run, round, token,
    session, failures, orphans, strikes, created_at, claimed_at, finished_at, cancel_requested_at,
    expires_at, deadline_at, lapses_at, key, unique_key, parent, root, weight_class,
    payload_version, rules, pending, relaunch_at, turn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?)

-- statement: look_after
INSERT INTO limpet_key (key, next_at) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET next_at = excluded.next_at

-- statement: insert_result
INSERT INTO limpet_result (n, value, secrets, error) VALUES (?, ?, ?, ?)

-- statement: insert_blocked
INSERT INTO limpet_blocked (n, reason, what, since) VALUES (?, ?, ?, ?)

-- statement: arrived
UPDATE limpet_store SET cursor = :cursor

-- statement: forget_totals
DELETE FROM limpet_total

-- statement: forget_lines
DELETE FROM limpet_key

-- statement: some
SELECT n, queue, state FROM limpet_job WHERE n > 0 ORDER BY n LIMIT :limit
