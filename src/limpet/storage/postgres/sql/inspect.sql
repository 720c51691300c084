-- inspect: what a person can look at.
-- purpose: reads only.
-- params:  by name; a filter that is NULL matches everything.
-- returns: columns in the order that storage/sql/rows.py reads.

-- statement: job
SELECT * FROM limpet.job_view WHERE id = %(id)s

-- statement: jobs
SELECT v.* FROM (
    SELECT j.id FROM limpet.job j
    WHERE j.id < %(before)s
      AND (%(queue)s::text IS NULL OR j.queue = %(queue)s)
      AND (%(task)s::text IS NULL OR j.task = %(task)s)
    ORDER BY j.id DESC
    LIMIT %(limit)s) top
CROSS JOIN LATERAL (SELECT * FROM limpet.job_view w WHERE w.id = top.id OFFSET 0) v
ORDER BY v.id DESC

-- statement: jobs_in_state
SELECT v.* FROM (
    SELECT p.id FROM limpet.placed p
    WHERE p.state = %(state)s AND p.id < %(before)s
      AND (%(queue)s::text IS NULL OR p.queue = %(queue)s)
      AND (%(task)s::text IS NULL OR p.task = %(task)s)
    ORDER BY p.id DESC
    LIMIT %(limit)s) top
CROSS JOIN LATERAL (SELECT * FROM limpet.job_view w WHERE w.id = top.id OFFSET 0) v
ORDER BY v.id DESC

-- statement: states
SELECT id, state FROM limpet.placed WHERE id = ANY (limpet.v1_column(%(ids)s))

-- statement: events
SELECT at, event, session, token, cause, claimed_at FROM limpet.event
WHERE id = %(id)s ORDER BY e

-- statement: latest_events
SELECT j.id, j.task, j.queue, v.at, v.event, v.session, v.token, v.cause, v.claimed_at
FROM limpet.event v JOIN limpet.job j ON j.id = v.id
ORDER BY v.e DESC
LIMIT %(limit)s

-- statement: log
SELECT at, level, message FROM limpet.log WHERE id = %(id)s ORDER BY l

-- statement: queues
WITH RECURSIVE counted AS (
    SELECT t.queue, t.target AS state, sum(t.jobs) AS jobs FROM limpet.tally t
    WHERE t.target IS NOT NULL GROUP BY t.queue, t.target
    UNION ALL
    SELECT t.queue, t.source, -sum(t.jobs) FROM limpet.tally t
    WHERE t.source IS NOT NULL GROUP BY t.queue, t.source
), line AS (
    (SELECT r.queue, r.task, r.suspect FROM limpet.ready r
     ORDER BY r.queue, r.task, r.suspect LIMIT 1)
    UNION ALL
    SELECT more.queue, more.task, more.suspect FROM line l CROSS JOIN LATERAL (
        SELECT r.queue, r.task, r.suspect FROM limpet.ready r
        WHERE (r.queue, r.task, r.suspect) > (l.queue, l.task, l.suspect)
        ORDER BY r.queue, r.task, r.suspect LIMIT 1) more
), head AS (
    SELECT DISTINCT ON (first.queue) first.queue, first.ready_at
    FROM line l CROSS JOIN LATERAL (
        SELECT r.queue, r.ready_at, r.sort_key, r.n FROM limpet.ready r
        WHERE r.queue = l.queue AND r.task = l.task AND r.suspect = l.suspect
        ORDER BY r.sort_key, r.n LIMIT 1) first
    ORDER BY first.queue, first.sort_key, first.n
)
SELECT c.queue, c.state, sum(c.jobs)::bigint, h.ready_at
FROM counted c
LEFT JOIN head h ON h.queue = c.queue
GROUP BY c.queue, c.state, h.ready_at
ORDER BY c.queue, c.state

-- statement: queue_rules
SELECT name, paused, declared, adjusted, held_until, given_until, draining,
       limpet.v1_time(%(wall)s)
FROM limpet.queue ORDER BY name

-- statement: sessions
SELECT s.id, s.kind, s.name, s.host, s.pid, s.lease, s.state, s.moment, s.boot, coalesce(h.seq, 0),
       coalesce(h.held_count, 0), s.registered_at, s.renewed_at, s.ended_at, s.cause, s.lock,
       s.schedules, s.moment <= limpet.v1_time(%(lease)s)
FROM limpet.session s LEFT JOIN limpet.hold h ON h.session = s.id
WHERE (%(with_dead)s OR s.state <> 'dead') AND (%(one)s::text IS NULL OR s.id = %(one)s)
ORDER BY s.registered_at DESC, s.id DESC

-- statement: totals
SELECT queue, move, sum(jobs)::bigint FROM limpet.tally WHERE move <> '' GROUP BY queue, move
ORDER BY queue, move COLLATE "C"

-- statement: store
SELECT epoch, version FROM limpet.store

-- statement: durability
SELECT current_setting('synchronous_commit'), current_setting('fsync'),
       current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication), current_setting('server_version')

-- statement: old_snapshot
-- An old snapshot of another transaction keeps dead rows from being cleaned away, and claims read past them.
SELECT extract(epoch FROM clock_timestamp() - min(a.xact_start))::bigint,
       max(age(a.backend_xmin))::bigint,
       (array_agg(a.pid ORDER BY age(a.backend_xmin) DESC))[1]
FROM pg_stat_activity a
WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database()
  AND a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
