-- cargo: jobs on their way to another store (adopt, furnish and discard are functions).
-- purpose: jobs are read; settings (records/store_settings.py) are read and written.
-- params:  by name.
--          after, last: ids.
-- returns: sizes: ids, and the size of each job in bytes.
--          jobs: columns in the order of Parcel.
--          events: columns in the order of CarriedEvent.
--          lines: columns in the order of CarriedLine.
--          counts, queues, paused: parts of a manifest.
--          queue_pieces, key_pieces: the settings of queues and keys.

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
       p.value_secrets, t.error, p.blocked, g.token, g.done, g.total, g.note, g.at, j.rules,
       p.pending, (SELECT r.at FROM limpet.relaunch r WHERE r.id = j.id),
       j.key IS NOT NULL AND p.turn
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
SELECT DISTINCT queue FROM limpet.tally WHERE queue <> '*' ORDER BY queue

-- statement: paused
SELECT name FROM limpet.queue WHERE paused ORDER BY name

-- statement: queue_pieces
SELECT name, declared, adjusted, held_until, given_until, draining FROM limpet.queue ORDER BY name

-- statement: key_pieces
SELECT name, set_limit, set_rate, given_until FROM limpet.key ORDER BY name

-- statement: furnish_queue
UPDATE limpet.queue
SET held_until = %(held_until)s, given_until = %(given_until)s, draining = %(draining)s
WHERE name = %(queue)s

-- statement: furnish_key
INSERT INTO limpet.key AS k (name, held, set_limit, set_rate, rated, given_until)
VALUES (%(key)s, 0, %(limit)s, %(rate)s, %(rate)s::text IS NOT NULL, %(given_until)s)
ON CONFLICT (name) DO UPDATE
SET set_limit = excluded.set_limit, set_rate = excluded.set_rate, rated = k.rated OR excluded.rated,
    given_until = excluded.given_until
