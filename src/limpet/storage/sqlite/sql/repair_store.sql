-- repair_store: correct what follows from the jobs themselves.
-- purpose: each statement repairs one rule of invariants.sql where it is broken, and changes nothing
--          where it holds; a name that ends in a number is a further step of the same rule. No job is
--          removed, and none goes into or out of a final state.
-- params:  :now.
--          holdings: session, the number of its jobs, the total of their digest.
-- returns: one row for each repair.

-- statement: place_in_line
UPDATE limpet_job SET sort_key = ready_at - priority * 60000000
WHERE sort_key <> ready_at - priority * 60000000
RETURNING id

-- statement: lapse_is_earliest
UPDATE limpet_job SET lapses_at = CASE
    WHEN state NOT IN ('scheduled', 'ready', 'blocked') THEN NULL
    WHEN expires_at IS NULL THEN deadline_at
    WHEN deadline_at IS NULL THEN expires_at
    ELSE min(expires_at, deadline_at) END
WHERE lapses_at IS NOT CASE
    WHEN state NOT IN ('scheduled', 'ready', 'blocked') THEN NULL
    WHEN expires_at IS NULL THEN deadline_at
    WHEN deadline_at IS NULL THEN expires_at
    ELSE min(expires_at, deadline_at) END
RETURNING id

-- statement: blocked_has_reason
DELETE FROM limpet_blocked
WHERE NOT EXISTS (SELECT 1 FROM limpet_job j WHERE j.n = limpet_blocked.n AND j.state = 'blocked')
RETURNING n

-- statement: blocked_has_reason_2
-- Scheduled, because `promote` lets it become ready like any other: with a turn of its key.
UPDATE limpet_job SET state = 'scheduled'
WHERE state = 'blocked' AND turn <> 2 AND pending = 0
  AND NOT EXISTS (SELECT 1 FROM limpet_blocked b WHERE b.n = limpet_job.n)
RETURNING id

-- statement: relaunch_is_of_failed
UPDATE limpet_job SET relaunch_at = NULL WHERE relaunch_at IS NOT NULL AND state <> 'failed'
RETURNING id

-- statement: key_has_turn
UPDATE limpet_job SET turn = 1 WHERE key IS NOT NULL AND state = 'running' AND turn <> 1
RETURNING id

-- statement: key_has_turn_2
UPDATE limpet_job SET state = 'scheduled', turn = 0
WHERE key IS NOT NULL AND state = 'ready' AND turn <> 1
RETURNING id

-- statement: turn_is_used
-- `promote` gives the turns that these jobs give back to the jobs that wait.
INSERT INTO limpet_key (key, next_at)
SELECT DISTINCT key, :now FROM limpet_job
WHERE key IS NOT NULL AND turn = 1 AND state NOT IN ('ready', 'running', 'scheduled')
ON CONFLICT (key) DO UPDATE SET next_at = min(coalesce(next_at, excluded.next_at), excluded.next_at)

-- statement: turn_is_used_2
UPDATE limpet_job SET turn = 0
WHERE turn NOT IN (0, 1, 2) OR (turn > 0 AND key IS NULL)
   OR (turn = 1 AND state NOT IN ('ready', 'running', 'scheduled'))
   OR (turn = 2 AND state <> 'blocked')
RETURNING id

-- statement: turn_is_given
INSERT INTO limpet_key (key, next_at)
SELECT DISTINCT w.key, :now FROM limpet_job w
WHERE w.turn = 2
  AND NOT EXISTS (SELECT 1 FROM limpet_job t WHERE t.key = w.key AND t.turn = 1)
  AND NOT EXISTS (SELECT 1 FROM limpet_key k WHERE k.key = w.key AND k.next_at IS NOT NULL)
ON CONFLICT (key) DO UPDATE SET next_at = excluded.next_at
RETURNING key

-- statement: gauges_are_right
INSERT INTO limpet_gauge (queue, state, jobs)
SELECT queue, state, sum(jobs) FROM (
    SELECT queue, state, count(*) AS jobs FROM limpet_job GROUP BY queue, state
    UNION ALL
    SELECT queue, state, 0 FROM limpet_gauge)
WHERE true GROUP BY queue, state
ON CONFLICT (queue, state) DO UPDATE SET jobs = excluded.jobs WHERE jobs <> excluded.jobs
RETURNING queue

-- statement: holdings
UPDATE limpet_session SET held_count = ?2, held_total = ?3 WHERE id = ?1

-- statement: permit_is_held
DELETE FROM limpet_permit
WHERE CASE WHEN n IS NULL THEN NOT EXISTS (
          SELECT 1 FROM limpet_session s WHERE s.id = holder AND s.state <> 'dead')
      ELSE NOT EXISTS (
          SELECT 1 FROM limpet_job j
          WHERE j.n = limpet_permit.n AND j.id = holder AND j.state = 'running'
            AND j.session = limpet_permit.session) END
RETURNING holder
