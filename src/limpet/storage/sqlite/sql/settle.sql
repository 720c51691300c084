-- settle: apply the outcomes of attempts whose lease holds (see fence.sql).
-- purpose: running to succeeded, or to the target of any other outcome.
-- params:  by name, otherwise tuples; in tuples the job's number or id comes last, but first in error.
--          :leases: a JSON object of job ids and tokens.
--          :numbers: a JSON list of the jobs' numbers.
--          :values: a JSON object of job ids and results.
--          :ids: a JSON list.
-- returns: completing: for the leases that hold, by queue: how many, their numbers, and the numbers of
--              those that may have an error from an earlier attempt.
--          tied: whether any job has a turn of a key, and whether any has a parent.
--          turns: the keys of which these jobs have a turn.
--          queues: the queue of each job.
--          options: the options of a job.
--          request: the cause of its cancellation request.
--          all others: nothing.

-- statement: completing
SELECT j.queue, count(*), json_group_array(j.n),
       json_group_array(j.n) FILTER (WHERE j.failures + j.orphans > 0)
FROM json_each(:leases) e
CROSS JOIN limpet_job j ON j.id = e.key
WHERE j.state = 'running' AND j.session = :session AND j.token = e.value
GROUP BY j.queue

-- statement: tied
SELECT EXISTS (SELECT 1 FROM limpet_job INDEXED BY limpet_job_turn WHERE turn = 1),
       EXISTS (SELECT 1 FROM limpet_job INDEXED BY limpet_job_child WHERE parent IS NOT NULL)

-- statement: turns
SELECT DISTINCT key FROM limpet_job
WHERE n IN (SELECT value FROM json_each(:numbers)) AND turn = 1

-- statement: complete_keyed
UPDATE limpet_job SET state = 'succeeded', finished_at = :now, turn = 0
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: complete
UPDATE limpet_job SET state = 'succeeded', finished_at = :now
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: queues
SELECT id, queue FROM limpet_job WHERE id IN (SELECT value FROM json_each(:ids))

-- statement: fan_out
UPDATE limpet_job SET pending = :pending WHERE n = :n

-- statement: relaunch
UPDATE limpet_job SET relaunch_at = :at WHERE n = :n

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
