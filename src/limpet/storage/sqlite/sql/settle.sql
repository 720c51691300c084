-- settle: apply the outcomes of attempts whose lease holds (see fence.sql).
-- purpose: running to succeeded, or to where an unhappy outcome takes the job.
-- params:  tuples; the job's number comes last.
-- returns: options the job's options; request why its cancellation was asked for; else nothing.

-- statement: complete
UPDATE limpet_job SET state = 'succeeded', finished_at = ? WHERE n = ?

-- statement: result
INSERT INTO limpet_result (n, value, secrets) VALUES (?, ?, ?)
ON CONFLICT (n) DO UPDATE SET value = excluded.value, secrets = excluded.secrets, error = NULL

-- statement: no_result
DELETE FROM limpet_result WHERE n = ?

-- statement: move
UPDATE limpet_job
SET state = ?, session = ?, sort_key = ?, ready_at = ?, finished_at = ?,
    failures = ?, orphans = ?, strikes = ?, suspect = ?, last_run = ?, expires_at = ?, lapses_at = ?, begun = 0
WHERE n = ?

-- statement: error
INSERT INTO limpet_result (n, error) VALUES (?, ?)
ON CONFLICT (n) DO UPDATE SET error = excluded.error, value = NULL

-- statement: options
SELECT options FROM limpet_payload WHERE n = :n

-- statement: request
SELECT cause FROM limpet_event
WHERE n = :n AND event = 'cancel_requested' AND cause IS NOT NULL
ORDER BY e DESC LIMIT 1
