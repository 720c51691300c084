-- prune: remove what was finished long ago, a small step at a time.
-- purpose: a final state to (nothing), with everything told about the job.
-- params:  old: :state, :finished_before, :created_before, :limit; the deletions take
--          the row's number.
-- returns: old: the jobs to remove;
--          old_sessions: dead sessions that nobody needs any more.

-- statement: old
SELECT n, queue FROM limpet_job INDEXED BY limpet_job_finished
WHERE state = :state AND finished_at IS NOT NULL AND finished_at < :finished_before
  AND created_at < :created_before
ORDER BY finished_at
LIMIT :limit

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
  AND digest NOT IN (SELECT p.value FROM limpet_session s, json_each(s.pools) p)
