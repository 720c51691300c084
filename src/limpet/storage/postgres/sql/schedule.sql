-- schedule: jobs that are enqueued again and again.
-- purpose: (nothing) to a schedule and back; a tick moves next_at on, in the transaction that enqueues.
-- params:  by name; every time is wall time.
--          adopt: rows: a JSON list of lists.
-- returns: find, all, due: columns in the order of `schedule_of` in storage/sql/schedules.py.
--          hold: the same, locked: nobody else fires or changes the schedule before the commit.
--          later: the first tick after `until`.
--          put, remove: the id, where something changed.

-- statement: find
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet.schedule WHERE id = %(id)s

-- statement: hold
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet.schedule WHERE id = %(id)s FOR UPDATE

-- statement: all
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet.schedule ORDER BY id

-- statement: due
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet.schedule WHERE NOT paused AND next_at <= %(until)s ORDER BY next_at, id LIMIT %(limit)s

-- statement: later
SELECT min(next_at) FROM limpet.schedule WHERE NOT paused AND next_at > %(until)s

-- statement: put
INSERT INTO limpet.schedule AS s (id, timing, definition, next_at, changed_at)
VALUES (%(id)s, %(timing)s, %(definition)s, %(next_at)s, limpet.v1_time(%(now)s::bigint))
ON CONFLICT (id) DO UPDATE SET
    next_at = CASE WHEN s.timing = excluded.timing THEN s.next_at ELSE excluded.next_at END,
    changed_at = greatest(excluded.changed_at, s.changed_at + 1),
    timing = excluded.timing, definition = excluded.definition
WHERE s.definition <> excluded.definition
RETURNING id

-- statement: adopt
INSERT INTO limpet.schedule (
    id, timing, definition, next_at, paused, last_at, last_job, fired, passed, changed_at)
SELECT value ->> 0, value ->> 1, value ->> 2, (value ->> 3)::bigint, (value ->> 4)::boolean,
       (value ->> 5)::bigint, value ->> 6, (value ->> 7)::bigint, (value ->> 8)::bigint,
       (value ->> 9)::bigint
FROM json_array_elements(%(rows)s::json)

-- statement: remove
DELETE FROM limpet.schedule WHERE id = %(id)s RETURNING id

-- statement: remove_all
DELETE FROM limpet.schedule

-- statement: pause
UPDATE limpet.schedule SET paused = true WHERE id = %(id)s

-- statement: resume
UPDATE limpet.schedule
SET paused = false, next_at = greatest(next_at, coalesce(%(next_at)s::bigint, next_at))
WHERE id = %(id)s AND paused

-- statement: move_on
UPDATE limpet.schedule
SET next_at = %(next_at)s, last_at = coalesce(%(at)s::bigint, last_at),
    last_job = coalesce(%(job)s::text, last_job), fired = fired + %(fired)s, passed = passed + %(passed)s
WHERE id = %(id)s
