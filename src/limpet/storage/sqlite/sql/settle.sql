-- settle: apply the outcomes of attempts whose lease holds (see fence.sql).
-- purpose: running to succeeded, or to where an unhappy outcome takes the job.
-- params:  by name: :leases, a JSON object of job ids and tokens; :numbers, a JSON list of the jobs'
--          numbers; :values, a JSON object of job ids and results. Else tuples, the job's number or
--          id comes last.
-- returns: completing: of the leases that hold, by queue, how many, their numbers, and the numbers
--          of those that may have left an error behind; options the job's options; request why
--          its cancellation was asked for; else nothing.

-- statement: completing
SELECT j.queue, count(*), json_group_array(j.n),
       json_group_array(j.n) FILTER (WHERE j.failures + j.orphans > 0)
FROM json_each(:leases) e
CROSS JOIN limpet_job j ON j.id = e.key
WHERE j.state = 'running' AND j.session = :session AND j.token = e.value
GROUP BY j.queue

-- statement: complete
UPDATE limpet_job SET state = 'succeeded', finished_at = :now
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: forget_error
DELETE FROM limpet_result WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: results
INSERT INTO limpet_result (n, value)
SELECT j.n, e.value FROM json_each(:values) e CROSS JOIN limpet_job j ON j.id = e.key WHERE true
ON CONFLICT (n) DO UPDATE SET value = excluded.value, secrets = '[]', error = NULL

-- statement: result
INSERT INTO limpet_result (value, secrets, n) SELECT ?, ?, n FROM limpet_job WHERE id = ?
ON CONFLICT (n) DO UPDATE SET value = excluded.value, secrets = excluded.secrets, error = NULL

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
