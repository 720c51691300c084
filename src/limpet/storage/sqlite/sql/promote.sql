-- promote: let time take effect.
-- purpose: scheduled to ready when due; waiting to cancelled or failed when too late; failed to
--          ready when a relaunch is due.
-- params:  :now, :limit; :n: a job's number.
-- returns: due, late: the jobs.
--          again: failed jobs to be relaunched; the first column is false if the parent is gone.
--          state: the state of a job.
--          next_due: when promote is due next.

-- statement: due
SELECT n, queue, state, key, turn, sort_key FROM limpet_job INDEXED BY limpet_job_due
WHERE state = 'scheduled' AND ready_at <= :now AND (lapses_at IS NULL OR lapses_at > :now)
ORDER BY ready_at
LIMIT :limit

-- statement: again
SELECT NOT EXISTS (SELECT 1 FROM limpet_job o
                   WHERE o.id = j.parent AND o.state IN ('failed', 'cancelled')),
       j.n, j.state, j.queue, j.round, j.priority, j.token, j.session, j.claimed_at, j.finished_at,
       j.cancel_requested_at
FROM limpet_job j INDEXED BY limpet_job_relaunch
WHERE j.relaunch_at IS NOT NULL AND j.relaunch_at <= :now
ORDER BY j.relaunch_at
LIMIT :limit

-- statement: state
SELECT state FROM limpet_job WHERE n = :n

-- statement: late
SELECT n, queue, state, expires_at, deadline_at FROM limpet_job INDEXED BY limpet_job_lapse
WHERE lapses_at IS NOT NULL AND lapses_at <= :now
ORDER BY lapses_at
LIMIT :limit

-- statement: lapse
UPDATE limpet_job SET state = ?, finished_at = ?, lapses_at = NULL WHERE n = ?

-- statement: next_due
SELECT min(at) FROM (
    SELECT min(ready_at) AS at FROM limpet_job INDEXED BY limpet_job_due
    WHERE state = 'scheduled'
    UNION ALL
    SELECT min(lapses_at) FROM limpet_job INDEXED BY limpet_job_lapse
    WHERE lapses_at IS NOT NULL
    UNION ALL
    SELECT min(relaunch_at) FROM limpet_job INDEXED BY limpet_job_relaunch
    WHERE relaunch_at IS NOT NULL
    UNION ALL
    SELECT min(next_at) FROM limpet_key INDEXED BY limpet_key_next
    WHERE next_at IS NOT NULL)
