-- promote: let time take effect.
-- purpose: scheduled to ready when due; waiting to cancelled or failed when too late.
-- params:  :now, :limit.
-- returns: due and late: the jobs; next_due: when to come back.

-- statement: due
SELECT n, queue FROM limpet_job INDEXED BY limpet_job_due
WHERE state = 'scheduled' AND ready_at <= :now AND (lapses_at IS NULL OR lapses_at > :now)
ORDER BY ready_at
LIMIT :limit

-- statement: ready
UPDATE limpet_job SET state = 'ready' WHERE n = ?

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
    WHERE lapses_at IS NOT NULL)
