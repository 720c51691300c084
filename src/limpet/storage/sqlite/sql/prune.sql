-- prune: remove jobs that finished long ago, and old dead sessions, a small step at a time.
-- purpose: a final state to (nothing), with everything about the job.
-- params:  old: :state, :finished_before, :created_before, :now, :limit.
--          finished: :state, :finished_before, :limit, and the place after which to look (:finished_at,
--              :n).
--          old_of: :numbers, a JSON list; :created_before, :now.
--          the deletions: the row's number.
-- returns: old: the jobs to remove.
--          finished: number, queue and end of jobs, in the order of their ends.
--          old_of: those of the numbers that may be removed.
--          old_sessions: dead sessions without running jobs.

-- statement: old
SELECT j.n, j.queue FROM limpet_job j INDEXED BY limpet_job_finished
WHERE j.state = :state AND j.finished_at IS NOT NULL AND j.finished_at < :finished_before
  AND j.created_at < :created_before
  -- A parent reads its children's results; and a parent that is gone cancels its children first.
  AND (j.parent IS NULL OR NOT EXISTS (
      SELECT 1 FROM limpet_job o WHERE o.id = j.parent AND o.finished_at IS NULL))
  AND NOT EXISTS (SELECT 1 FROM limpet_gone g WHERE g.n = j.n)
  -- A job that holds its unique for a time stays until that time is over.
  AND (j.sole = 0 OR NOT json_valid(j.rules) OR j.rules ->> 'unique_until' IS NOT 'time'
       OR j.created_at + (j.rules ->> 'unique_for') <= :now)
ORDER BY j.finished_at
LIMIT :limit

-- statement: finished
SELECT n, queue, finished_at FROM limpet_job INDEXED BY limpet_job_finished
WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :finished_before
  AND finished_at >= :finished_at AND (finished_at > :finished_at OR n > :n)
ORDER BY finished_at, n
LIMIT :limit

-- statement: old_of
SELECT j.n, j.queue FROM limpet_job j
WHERE j.n IN (SELECT value FROM json_each(:numbers))
  AND j.created_at < :created_before
  AND (j.parent IS NULL OR NOT EXISTS (
      SELECT 1 FROM limpet_job o WHERE o.id = j.parent AND o.finished_at IS NULL))
  AND NOT EXISTS (SELECT 1 FROM limpet_gone g WHERE g.n = j.n)
  -- A job that holds its unique for a time stays until that time is over.
  AND (j.sole = 0 OR NOT json_valid(j.rules) OR j.rules ->> 'unique_until' IS NOT 'time'
       OR j.created_at + (j.rules ->> 'unique_for') <= :now)

-- statement: job
DELETE FROM limpet_job WHERE n = ?

-- statement: payload
DELETE FROM limpet_payload WHERE n = ?

-- statement: result
DELETE FROM limpet_result WHERE n = ?

-- statement: events
DELETE FROM limpet_event WHERE n = ?

-- statement: progress
DELETE FROM limpet_progress WHERE n = ?

-- statement: log
DELETE FROM limpet_log WHERE n = ?

-- statement: old_sessions
SELECT id FROM limpet_session s
WHERE state = 'dead' AND ended_at < :ended_before
  AND NOT EXISTS (SELECT 1 FROM limpet_job j WHERE j.session = s.id AND j.state = 'running')
LIMIT :limit

-- statement: session
DELETE FROM limpet_session WHERE id = ?

-- statement: answer
DELETE FROM limpet_answer WHERE session = ?

-- statement: tasksets
DELETE FROM limpet_taskset
WHERE digest NOT IN (SELECT tasks FROM limpet_session)
  -- Unreadable pools may name any set of tasks.
  AND NOT EXISTS (SELECT 1 FROM limpet_session s WHERE NOT json_valid(s.pools))
  AND digest NOT IN (
      SELECT p.value FROM limpet_session s,
          json_each(CASE WHEN json_valid(s.pools) THEN s.pools ELSE '[]' END) p
      WHERE p.value IS NOT NULL)
