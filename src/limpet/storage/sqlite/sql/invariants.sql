-- invariants: what must always hold.
-- purpose: each statement finds what breaks one rule; its name is the rule's name, and the
--          comment under it is the sentence that fsck prints.
-- params:  none.
-- returns: one text for each violation, as an example.

-- statement: file_is_sound
-- the database file itself is sound
PRAGMA integrity_check

-- statement: state_is_known
-- a job is in one of the states of the table
SELECT id || ' ' || state FROM limpet_job
WHERE state NOT IN ('scheduled', 'ready', 'blocked', 'running', 'quarantined',
                    'succeeded', 'failed', 'cancelled')

-- statement: running_has_session
-- a running job is held by a session that the store knows
SELECT j.id FROM limpet_job j LEFT JOIN limpet_session s ON s.id = j.session
WHERE j.state = 'running' AND s.id IS NULL

-- statement: running_has_token
-- a running job has been claimed: it has a token and the time of the claim
SELECT id FROM limpet_job WHERE state = 'running' AND (token < 1 OR claimed_at IS NULL)

-- statement: final_is_finished
-- a job has the time of its end if and only if it is in a final state
SELECT id FROM limpet_job
WHERE (state IN ('succeeded', 'failed', 'cancelled')) <> (finished_at IS NOT NULL)

-- statement: token_never_falls
-- no event carries a later token than its job, except the complaints about late holders
SELECT j.id FROM limpet_job j
WHERE j.token < (SELECT max(v.token) FROM limpet_event v
                 WHERE v.n = j.n AND v.event <> 'lease_lost')

-- statement: counters_within_caps
-- failures, orphans and strikes are not negative, and no waiting job is over a cap
SELECT id FROM limpet_job
WHERE failures < 0 OR orphans < 0 OR strikes < 0 OR strikes > orphans
   OR (state IN ('scheduled', 'ready', 'blocked', 'running') AND last_run = 0
       AND (orphans >= 10 OR strikes >= 3))

-- statement: place_in_line
-- a job's place in its line is its ready time minus its priority times 60 s
SELECT id FROM limpet_job WHERE sort_key <> ready_at - priority * 60000000

-- statement: lapse_is_earliest
-- a waiting job lapses at the earlier of its expiry and its deadline, no other job does
SELECT id FROM limpet_job
WHERE lapses_at IS NOT CASE
    WHEN state NOT IN ('scheduled', 'ready', 'blocked') THEN NULL
    WHEN expires_at IS NULL THEN deadline_at
    WHEN deadline_at IS NULL THEN expires_at
    ELSE min(expires_at, deadline_at) END

-- statement: job_has_payload
-- every job has its payload
SELECT j.id FROM limpet_job j LEFT JOIN limpet_payload p ON p.n = j.n WHERE p.n IS NULL

-- statement: payload_is_json
-- payloads, options and results are JSON
SELECT 'payload ' || p.n FROM limpet_payload p
WHERE NOT json_valid(p.args) OR NOT json_valid(p.options) OR NOT json_valid(p.secrets)
UNION ALL
SELECT 'result ' || r.n FROM limpet_result r
WHERE (r.value IS NOT NULL AND NOT json_valid(r.value))
   OR (r.error IS NOT NULL AND NOT json_valid(r.error))

-- statement: nothing_left_over
-- nothing is kept about a job that is gone
SELECT 'payload ' || n FROM limpet_payload WHERE n NOT IN (SELECT n FROM limpet_job)
UNION ALL
SELECT 'result ' || n FROM limpet_result WHERE n NOT IN (SELECT n FROM limpet_job)
UNION ALL
SELECT 'event ' || n FROM limpet_event WHERE n NOT IN (SELECT n FROM limpet_job)
UNION ALL
SELECT 'progress ' || n FROM limpet_progress WHERE n NOT IN (SELECT n FROM limpet_job)
UNION ALL
SELECT 'log ' || n FROM limpet_log WHERE n NOT IN (SELECT n FROM limpet_job)
UNION ALL
SELECT 'answer ' || session FROM limpet_answer
WHERE session NOT IN (SELECT id FROM limpet_session)

-- statement: blocked_has_reason
-- a job is blocked if and only if exactly one reason is kept
SELECT j.id FROM limpet_job j
WHERE j.state = 'blocked'
  AND (SELECT count(*) FROM limpet_blocked b WHERE b.n = j.n) + (j.turn = 2) + (j.pending > 0) <> 1
UNION ALL
SELECT 'reason ' || b.reason || ' ' || b.what || ' of row ' || b.n FROM limpet_blocked b
WHERE NOT EXISTS (SELECT 1 FROM limpet_job j WHERE j.n = b.n AND j.state = 'blocked')

-- statement: key_has_turn
-- a job with a key is ready or running only with a turn of it
SELECT id FROM limpet_job WHERE key IS NOT NULL AND state IN ('ready', 'running') AND turn <> 1

-- statement: turn_is_used
-- only a job that can go on has a turn of its key, and only a blocked one waits for a turn
SELECT id FROM limpet_job
WHERE turn NOT IN (0, 1, 2) OR (turn > 0 AND key IS NULL)
   OR (turn = 1 AND state NOT IN ('ready', 'running', 'scheduled'))
   OR (turn = 2 AND state <> 'blocked')

-- statement: turn_is_given
-- no job waits for a key of which no job has a turn, unless the key waits for its time
SELECT 'key ' || w.key FROM limpet_job w
WHERE w.turn = 2
  AND NOT EXISTS (SELECT 1 FROM limpet_job t WHERE t.key = w.key AND t.turn = 1)
  AND NOT EXISTS (SELECT 1 FROM limpet_key k WHERE k.key = w.key AND k.next_at IS NOT NULL)
GROUP BY w.key

-- statement: pending_is_awaited
-- only a blocked job waits for children
SELECT id FROM limpet_job WHERE pending < 0 OR (pending > 0 AND state <> 'blocked')

-- statement: unique_has_one
-- a job that may hold a unique names one (an index ensures that no two hold the same)
SELECT id FROM limpet_job WHERE sole NOT IN (0, 1) OR (sole = 1 AND unique_key IS NULL)

-- statement: flow_is_whole
-- every part of a committed flow that is not written out yet is there
SELECT f.flow FROM limpet_flow f
WHERE (f.whole = 1) <> (f.written = f.chunks) OR (f.whole = 0 AND f.chunks - f.written <> (
    SELECT count(*) FROM limpet_staged s
    WHERE s.flow = f.flow AND s.place >= f.written AND s.place < f.chunks))

-- statement: gone_is_over
-- a parent whose children are to be cancelled failed or was cancelled, or was opened again since
SELECT 'row ' || g.n FROM limpet_gone g LEFT JOIN limpet_job j ON j.n = g.n
WHERE j.n IS NULL OR (j.round = 1 AND j.state NOT IN ('failed', 'cancelled'))

-- statement: relaunch_is_of_failed
-- only a failed job waits for a relaunch
SELECT id FROM limpet_job WHERE relaunch_at IS NOT NULL AND state <> 'failed'

-- statement: settings_are_json
-- the settings of queues, keys and breakers, staged flows and rules of jobs are JSON
SELECT 'queue ' || name FROM limpet_queue
WHERE NOT json_valid(coalesce(declared, '0')) OR NOT json_valid(coalesce(adjusted, '0'))
UNION ALL
SELECT 'key ' || key FROM limpet_key WHERE NOT json_valid(coalesce(rate, '0'))
UNION ALL
SELECT 'breaker ' || name FROM limpet_breaker
WHERE NOT json_valid(body) OR body ->> 'state' IS NOT state AND state <> 'closed'
UNION ALL
SELECT 'flow ' || flow || ' ' || place FROM limpet_staged WHERE NOT json_valid(jobs)
UNION ALL
SELECT 'rules of ' || id FROM limpet_job WHERE NOT json_valid(coalesce(rules, '0'))

-- statement: result_of_success
-- only a job that succeeded has a result, and it has no error
SELECT j.id FROM limpet_job j JOIN limpet_result r ON r.n = j.n
WHERE (r.value IS NOT NULL AND j.state <> 'succeeded')
   OR (r.error IS NOT NULL AND j.state = 'succeeded')

-- statement: gauges_are_right
-- the count of jobs by queue and state is the number of jobs
SELECT 'queue ' || g.queue || ' ' || g.state || ': ' || g.jobs || ' counted, ' || (
    SELECT count(*) FROM limpet_job j WHERE j.queue = g.queue AND j.state = g.state) || ' there'
FROM limpet_gauge g
WHERE g.jobs <> (SELECT count(*) FROM limpet_job j WHERE j.queue = g.queue AND j.state = g.state)
UNION ALL
SELECT 'queue ' || j.queue || ' ' || j.state || ': not counted' FROM limpet_job j
WHERE NOT EXISTS (
    SELECT 1 FROM limpet_gauge g WHERE g.queue = j.queue AND g.state = j.state)
GROUP BY j.queue, j.state

-- statement: sequence_has_answer
-- the last exchange of a session has its answer kept, under the same number
SELECT s.id FROM limpet_session s LEFT JOIN limpet_answer a ON a.session = s.id
WHERE s.seq > 0 AND (a.seq IS NULL OR a.seq <> s.seq)

-- statement: dead_has_end
-- a session has the time and the cause of its end if and only if it is dead
SELECT id FROM limpet_session
WHERE (state = 'dead') <> (ended_at IS NOT NULL) OR (state = 'dead') <> (cause IS NOT NULL)

-- statement: permit_is_held
-- a permit belongs to a job that runs under its session, or to a caller whose session is not dead
SELECT p.holder FROM limpet_permit p
WHERE CASE WHEN p.n IS NULL THEN NOT EXISTS (
          SELECT 1 FROM limpet_session s WHERE s.id = p.holder AND s.state <> 'dead')
      ELSE NOT EXISTS (
          SELECT 1 FROM limpet_job j
          WHERE j.n = p.n AND j.id = p.holder AND j.state = 'running' AND j.session = p.session) END

-- statement: holdings
SELECT s.id, s.held_count, s.held_total, j.id, j.token
FROM limpet_session s LEFT JOIN limpet_job j ON j.session = s.id AND j.state = 'running'
ORDER BY s.id
