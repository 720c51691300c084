-- fence: which of the given leases still hold.
-- purpose: every write after a claim is checked here, in the same step as the write.
-- params:  :leases: a JSON list of [job id, token, what the holder wants]; for begin, a JSON object
--              of job ids and tokens.
--          :session.
-- returns: holding: for each lease that holds, its place in the list and the job's row.
--          verdict: for each lease, its place, the job's number (null when it is gone), and whether
--              the report was accepted before.
--          complained: a row if the timeline has this complaint already.

-- statement: holding
SELECT e.key, j.n, j.queue, j.sort_key, j.ready_at, j.failures, j.orphans, j.strikes, j.last_run,
       j.begun, j.claimed_at, j.deadline_at, j.cancel_requested_at, j.priority, j.suspect,
       j.expires_at
FROM json_each(:leases) e
CROSS JOIN limpet_job j ON j.id = e.value ->> 0
WHERE j.state = 'running' AND j.session = :session AND j.token = e.value ->> 1

-- statement: verdict
SELECT e.key, j.n,
       (j.session = :session AND j.token = e.value ->> 1 AND j.state = 'succeeded'
        AND e.value ->> 2 = 'complete')
       OR EXISTS (
           SELECT 1 FROM limpet_event v
           WHERE v.n = j.n AND v.session = :session AND v.token = e.value ->> 1
             AND v.settled = e.value ->> 2)
       AS already
FROM json_each(:leases) e
LEFT JOIN limpet_job j ON j.id = e.value ->> 0

-- statement: complained
SELECT 1 FROM limpet_event
WHERE n = :n AND session = :session AND token = :token AND event = 'lease_lost'

-- statement: begin
UPDATE limpet_job SET begun = 1
WHERE begun = 0 AND n IN (
    SELECT j.n FROM json_each(:leases) e
    CROSS JOIN limpet_job j ON j.id = e.key
    WHERE j.state = 'running' AND j.session = :session AND j.token = e.value)
