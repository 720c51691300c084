-- schedule: jobs that are handed in again and again.
-- purpose: (nothing) to a schedule and back; a tick moves next_at on, in the step that enqueues.
-- params:  by name; every time is wall time.
-- returns: find, all, due: columns in the order of `schedule_of` in storage/sql/schedules.py.
--          hold: the same; here the transaction itself keeps other writers out.
--          later: the first tick after that time.
--          put, remove: the id, if something changed.

-- statement: find
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet_schedule WHERE id = :id

-- statement: hold
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet_schedule WHERE id = :id

-- statement: all
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet_schedule ORDER BY id

-- statement: due
SELECT id, definition, next_at, paused, last_at, last_job, fired, passed, changed_at
FROM limpet_schedule WHERE paused = 0 AND next_at <= :until ORDER BY next_at, id LIMIT :limit

-- statement: later
SELECT min(next_at) FROM limpet_schedule WHERE paused = 0 AND next_at > :until

-- statement: put
INSERT INTO limpet_schedule (id, timing, definition, next_at, changed_at)
VALUES (:id, :timing, :definition, :next_at, :now)
ON CONFLICT (id) DO UPDATE SET
    next_at = CASE WHEN timing = excluded.timing THEN next_at ELSE excluded.next_at END,
    changed_at = max(excluded.changed_at, changed_at + 1),
    timing = excluded.timing, definition = excluded.definition
WHERE definition <> excluded.definition
RETURNING id

-- statement: adopt
INSERT INTO limpet_schedule (
    id, timing, definition, next_at, paused, last_at, last_job, fired, passed, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- statement: remove
DELETE FROM limpet_schedule WHERE id = :id RETURNING id

-- statement: remove_all
DELETE FROM limpet_schedule

-- statement: pause
UPDATE limpet_schedule SET paused = 1 WHERE id = :id

-- statement: resume
UPDATE limpet_schedule SET paused = 0, next_at = max(next_at, coalesce(:next_at, next_at))
WHERE id = :id AND paused = 1

-- statement: move_on
UPDATE limpet_schedule
SET next_at = :next_at, last_at = coalesce(:at, last_at), last_job = coalesce(:job, last_job),
    fired = fired + :fired, passed = passed + :passed
WHERE id = :id
