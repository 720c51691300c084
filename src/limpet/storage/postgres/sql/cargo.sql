-- cargo: jobs on their way to another store (adopt, furnish and discard are functions).
-- purpose: reads only.
-- params:  by name; after and last are ids.
-- returns: sizes: ids and how many bytes each job is; jobs: in the order of Parcel; events, lines: in
--          the order of CarriedEvent and CarriedLine; counts, queues and paused: what a manifest
--          tells.

-- statement: sizes
SELECT j.id,
       octet_length(j.args) + octet_length(j.options)
       + coalesce((SELECT octet_length(d.result) FROM limpet.done d WHERE d.id = j.id), 0)
       + coalesce((SELECT sum(octet_length(v.cause)) FROM limpet.event v WHERE v.id = j.id), 0)
       + coalesce((SELECT sum(octet_length(l.message)) FROM limpet.log l WHERE l.id = j.id), 0)
FROM (SELECT id, args, options FROM limpet.job
      WHERE id > %(after)s ORDER BY id LIMIT %(limit)s) j
ORDER BY j.id

-- statement: jobs
SELECT p.n, p.id, p.task, p.queue, p.state, p.priority, p.ready_at, p.suspect, p.last_run, p.round,
       p.token, p.session, p.failures, p.orphans, p.strikes, j.created_at, p.claimed_at,
       p.finished_at, p.cancel_requested_at, p.expires_at, p.deadline_at, j.key, j.unique_key,
       j.parent, j.root, j.weight_class, j.payload_version, j.args, j.options, j.secrets, p.value,
       p.value_secrets, t.error, p.blocked, g.token, g.done, g.total, g.note, g.at
FROM limpet.job j
CROSS JOIN LATERAL (SELECT * FROM limpet.placed w WHERE w.id = j.id OFFSET 0) p
LEFT JOIN limpet.trouble t ON t.id = j.id
LEFT JOIN limpet.progress g ON g.id = j.id
WHERE j.id > %(after)s AND j.id <= %(last)s
ORDER BY j.id

-- statement: events
SELECT id, at, event, session, token, cause, claimed_at, settled FROM limpet.event
WHERE id > %(after)s AND id <= %(last)s
ORDER BY id, e

-- statement: lines
SELECT id, at, level, message FROM limpet.log
WHERE id > %(after)s AND id <= %(last)s
ORDER BY id, l

-- statement: counts
SELECT queue, state, count(*) FROM limpet.placed GROUP BY queue, state ORDER BY queue, state

-- statement: queues
SELECT DISTINCT queue FROM limpet.tally ORDER BY queue

-- statement: paused
SELECT name FROM limpet.queue WHERE paused ORDER BY name
