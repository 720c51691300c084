-- control: cancel, retry and pause, on a person's word.
-- purpose: waiting or quarantined to cancelled; running to cancel requested; final to ready.
-- params:  by name.
-- returns: find: the job's row.

-- statement: find
SELECT n, state, queue, round, priority, token, session, claimed_at, finished_at,
       cancel_requested_at
FROM limpet_job WHERE id = :id

-- statement: cancel
UPDATE limpet_job SET state = 'cancelled', finished_at = :now, cancel_requested_at = :now,
    lapses_at = NULL
WHERE n = :n

-- statement: request
UPDATE limpet_job SET cancel_requested_at = :now WHERE n = :n

-- statement: reopen
UPDATE limpet_job
SET state = 'ready', round = round + 1, failures = 0, orphans = 0, strikes = 0, suspect = 0,
    last_run = 0, begun = 0, sort_key = :sort_key, ready_at = :now, finished_at = NULL,
    session = NULL, claimed_at = NULL, cancel_requested_at = NULL, expires_at = NULL, deadline_at = NULL, lapses_at = NULL
WHERE n = :n

-- statement: forget_result
DELETE FROM limpet_result WHERE n = :n

-- statement: forget_progress
DELETE FROM limpet_progress WHERE n = :n

-- statement: pause
INSERT INTO limpet_queue (name, paused) VALUES (:queue, :paused)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
