-- control: cancel, retry, repair, requeue and pause, by a person's decision.
-- purpose: waiting or quarantined to cancelled; running to cancel requested; final to ready;
--          quarantined to ready; waiting to another queue.
-- params:  by name; :ids is a JSON list. requeue takes the queue and the number.
-- returns: find: the job's row.
--          movable: the jobs that can go to that queue.

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

-- statement: not_again
UPDATE limpet_job SET relaunch_at = NULL WHERE n = :n AND relaunch_at IS NOT NULL

-- statement: reopen
UPDATE limpet_job
SET round = round + 1, failures = 0, orphans = 0, strikes = 0, suspect = 0,
    last_run = 0, begun = 0, sort_key = :sort_key, ready_at = :now, finished_at = NULL,
    session = NULL, claimed_at = NULL, cancel_requested_at = NULL, expires_at = NULL,
    deadline_at = NULL, lapses_at = NULL, relaunch_at = NULL
WHERE n = :n

-- statement: repair
UPDATE limpet_job
SET sort_key = :sort_key, ready_at = :now, lapses_at = deadline_at, payload_version = :version
WHERE n = :n

-- statement: repair_payload
INSERT INTO limpet_payload (n, args, options, secrets) VALUES (:n, :args, :options, :secrets)
ON CONFLICT (n) DO UPDATE
SET args = excluded.args, options = excluded.options, secrets = excluded.secrets

-- statement: movable
SELECT n, queue, state FROM limpet_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND queue <> :queue
  AND state IN ('scheduled', 'ready', 'blocked')

-- statement: requeue
UPDATE limpet_job SET queue = ? WHERE n = ?

-- statement: forget_result
DELETE FROM limpet_result WHERE n = :n

-- statement: forget_progress
DELETE FROM limpet_progress WHERE n = :n

-- statement: pause
INSERT INTO limpet_queue (name, paused) VALUES (:queue, :paused)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
