-- invariants: what must always hold.
-- purpose: each statement finds what breaks one rule. Its name is the name of the rule, and the comment
--          under it is the sentence that fsck prints.
-- params:  none.
-- returns: one text for each thing that is wrong; fsck prints the first as an example.

-- statement: job_is_in_one_place
-- a job is in exactly one of ready, running, parked and done
SELECT id || ' is in ' || count(*) || ' places' FROM limpet.placed GROUP BY id HAVING count(*) > 1
UNION ALL
SELECT j.id || ' is nowhere' FROM limpet.job j
WHERE NOT EXISTS (SELECT 1 FROM limpet.placed p WHERE p.id = j.id)

-- statement: state_is_known
-- a finished job is in one of the final states
SELECT id || ' ' || state FROM limpet.done
WHERE state NOT IN ('succeeded', 'failed', 'cancelled')

-- statement: running_has_session
-- a running job is held by a session that the store knows
SELECT r.id FROM limpet.running r LEFT JOIN limpet.session s ON s.id = r.session
WHERE s.id IS NULL

-- statement: running_has_token
-- a running job has been claimed: it has a token and the time of the claim
SELECT id FROM limpet.running WHERE token < 1 OR claimed_at IS NULL

-- statement: token_never_falls
-- no event carries a later token than its job, except the complaints about late holders
SELECT p.id FROM limpet.placed p JOIN limpet.event v ON v.id = p.id
WHERE v.event <> 'lease_lost'
GROUP BY p.id, p.token HAVING p.token < max(v.token)

-- statement: counters_within_caps
-- failures, orphans and strikes are not negative, and no waiting job is over a cap
SELECT id FROM limpet.placed
WHERE failures < 0 OR orphans < 0 OR strikes < 0 OR strikes > orphans
   OR (state IN ('scheduled', 'ready', 'blocked', 'running') AND NOT last_run
       AND (orphans >= 10 OR strikes >= 3))

-- statement: place_in_line
-- a job's place in its line is its ready time minus its priority times 60 s
SELECT id FROM limpet.placed WHERE sort_key <> ready_at - priority * 60000000::bigint

-- statement: row_is_of_its_job
-- the row of a job has the queue, the task, the priority and the number of the job
SELECT p.id FROM limpet.placed p JOIN limpet.job j ON j.id = p.id
WHERE (p.queue, p.task, p.priority, p.n) <> (j.queue, j.task, j.priority, j.n)

-- statement: mark_is_of_its_lease
-- the mark of a running job is made of its id and its token
SELECT id FROM limpet.running WHERE mark <> tail + token % 1048576 * 2654435761

-- statement: payload_is_json
-- payloads, options and results are JSON
SELECT 'payload ' || id FROM limpet.job
WHERE NOT (limpet.v1_is_json(args) AND limpet.v1_is_json(options) AND limpet.v1_is_json(secrets))
UNION ALL
SELECT 'result ' || id FROM limpet.done WHERE NOT limpet.v1_is_json(result)
UNION ALL
SELECT 'error ' || id FROM limpet.trouble WHERE NOT limpet.v1_is_json(error)

-- statement: nothing_left_over
-- nothing is kept about a job that is gone
SELECT 'row ' || id FROM limpet.placed p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'error ' || id FROM limpet.trouble p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'event ' || id FROM limpet.event p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'progress ' || id FROM limpet.progress p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'log ' || id FROM limpet.log p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'relaunch ' || id FROM limpet.relaunch p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'unique ' || id FROM limpet.single p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id)
UNION ALL
SELECT 'child ' || id FROM limpet.child p
WHERE NOT EXISTS (SELECT 1 FROM limpet.job j WHERE j.id = p.id AND j.parent = p.parent)
UNION ALL
SELECT 'hold ' || session FROM limpet.hold h
WHERE NOT EXISTS (SELECT 1 FROM limpet.session s WHERE s.id = h.session)

-- statement: blocked_has_reason
-- a job is blocked if and only if a reason is kept
SELECT id FROM limpet.parked
WHERE (state = 'blocked') <> (reason IS NOT NULL AND what IS NOT NULL AND since IS NOT NULL)

-- statement: result_of_success
-- only a job that succeeded has a result, and it has no error
SELECT id FROM limpet.done WHERE result IS NOT NULL AND state <> 'succeeded'
UNION ALL
SELECT d.id FROM limpet.done d JOIN limpet.trouble t ON t.id = d.id WHERE d.state = 'succeeded'

-- statement: counts_are_right
-- the count of jobs by queue and state is the number of jobs
SELECT 'queue ' || queue || ' ' || state || ': ' || sum(counted) || ' counted, ' || sum(there)
       || ' there'
FROM (
    SELECT queue, target AS state, sum(jobs) AS counted, 0::numeric AS there FROM limpet.tally
    WHERE target IS NOT NULL GROUP BY queue, target
    UNION ALL
    SELECT queue, source, -sum(jobs), 0 FROM limpet.tally
    WHERE source IS NOT NULL GROUP BY queue, source
    UNION ALL
    SELECT queue, state, 0, count(*) FROM limpet.placed GROUP BY queue, state) both_ways
GROUP BY queue, state HAVING sum(counted) <> sum(there)

-- statement: session_has_hold
-- a session has one row of what it holds
SELECT s.id FROM limpet.session s
WHERE (SELECT count(*) FROM limpet.hold h WHERE h.session = s.id) <> 1

-- statement: dead_has_end
-- a session has the time and the cause of its end if and only if it is dead
SELECT id FROM limpet.session
WHERE (state = 'dead') <> (ended_at IS NOT NULL) OR (state = 'dead') <> (cause IS NOT NULL)

-- statement: claimed_by_an_exchange
-- a running job was claimed by an exchange that its session remembers
SELECT r.id FROM limpet.running r JOIN limpet.hold h ON h.session = r.session WHERE r.seq > h.seq

-- statement: holdings
-- the digest of what a session holds is that of its running jobs
SELECT 'session ' || h.session || ': ' || h.held_count || ' kept, ' || count(r.id) || ' there'
FROM limpet.hold h LEFT JOIN limpet.running r ON r.session = h.session
GROUP BY h.session, h.held_count, h.held_total
HAVING h.held_count <> count(r.id)
    OR h.held_total <> coalesce(sum(r.mark), 0)::bigint & 281474976710655

-- statement: session_has_tasks
-- the tasks of a session that is not dead are kept, and those of its pools
SELECT DISTINCT s.id FROM limpet.session s
CROSS JOIN LATERAL (
    SELECT s.tasks AS digest UNION ALL SELECT json_array_elements_text(limpet.v1_pools(s.pools))) d
WHERE s.state <> 'dead'
  AND d.digest <> 'b8e1dda3ac0aa3820ad2990b' -- of no task at all
  AND NOT EXISTS (SELECT 1 FROM limpet.taskset t WHERE t.digest = d.digest)

-- statement: turns_are_counted
-- a key has as many turns given out as jobs have one
SELECT 'key ' || name || ': ' || sum(counted) || ' counted, ' || sum(there) || ' there'
FROM (
    SELECT name, held AS counted, 0::bigint AS there FROM limpet.key
    UNION ALL
    SELECT j.key, 0, count(*) FROM limpet.placed p JOIN limpet.job j ON j.id = p.id
    WHERE p.turn AND j.key IS NOT NULL GROUP BY j.key
    UNION ALL
    -- A job that ended in a transaction of the user's own gives its turn back later.
    SELECT j.key, 0, count(*) FROM limpet.note o JOIN limpet.job j ON j.id = o.what
    WHERE o.kind = 'ended' AND o.turn AND j.key IS NOT NULL GROUP BY j.key) both_ways
GROUP BY name HAVING sum(counted) <> sum(there)

-- statement: turn_is_given
-- no job waits for a key of which no job has a turn, unless the key waits for its time
SELECT 'key ' || split_part(b.what, E'\x1e', 1) FROM limpet.parked b
LEFT JOIN limpet.key k ON k.name = split_part(b.what, E'\x1e', 1)
WHERE b.state = 'blocked' AND b.reason = 'key'
  AND (k.name IS NULL OR (k.held = 0 AND k.next_at IS NULL))
  AND coalesce(k.set_limit, 1) > 0
  AND NOT EXISTS (
      SELECT FROM limpet.note o WHERE o.kind = 'key' AND o.what = split_part(b.what, E'\x1e', 1))
GROUP BY 1

-- statement: turn_is_used
-- of the jobs that are parked, only a scheduled job with a key keeps a turn
SELECT b.id FROM limpet.parked b JOIN limpet.job j ON j.id = b.id
WHERE b.turn AND (b.state <> 'scheduled' OR j.key IS NULL)

-- statement: place_in_key
-- a job that waits for its key stands in the line of that key, at its place
SELECT b.id FROM limpet.parked b JOIN limpet.job j ON j.id = b.id
WHERE b.state = 'blocked' AND b.reason = 'key'
  AND b.what IS DISTINCT FROM limpet.v1_line_place(j.key, b.sort_key, b.n)

-- statement: pending_is_awaited
-- a job is blocked by its children if and only if it waits for some
SELECT id FROM limpet.parked
WHERE pending < 0 OR (pending > 0) <> (state = 'blocked' AND reason = 'children')

-- statement: child_is_known
-- a job with a parent is among the children of that parent
SELECT j.id FROM limpet.job j JOIN limpet.placed p ON p.id = j.id
WHERE j.parent IS NOT NULL AND p.turn
  AND NOT EXISTS (SELECT 1 FROM limpet.child c WHERE c.parent = j.parent AND c.n = j.n)

-- statement: unique_has_one
-- a unique is held by a job that names it, and the unique of every unfinished job is held
SELECT 'unique ' || s.name || ' of ' || s.task FROM limpet.single s JOIN limpet.job j ON j.id = s.id
WHERE (j.task, j.unique_key) IS DISTINCT FROM (s.task, s.name)
UNION ALL
SELECT 'unique ' || j.unique_key || ' of ' || j.task
FROM limpet.job j JOIN limpet.placed p ON p.id = j.id
WHERE j.unique_key IS NOT NULL AND j.rules IS NOT NULL AND p.finished_at IS NULL
  AND NOT EXISTS (
      SELECT 1 FROM limpet.single s WHERE s.task = j.task AND s.name = j.unique_key)

-- statement: permit_is_held
-- a permit belongs to a job that runs under its session, or to a caller whose session is not dead
SELECT p.holder FROM limpet.permit p
WHERE CASE WHEN p.holder = p.session THEN NOT EXISTS (
          SELECT 1 FROM limpet.session s WHERE s.id = p.holder AND s.state <> 'dead')
      ELSE NOT EXISTS (
          SELECT 1 FROM limpet.running r WHERE r.id = p.holder AND r.session = p.session) END

-- statement: staged_has_flow
-- staged jobs belong to a flow that is not written out, and every part of a committed flow is there
SELECT 'flow ' || s.flow FROM limpet.staged s LEFT JOIN limpet.flow f ON f.id = s.flow
WHERE f.id IS NULL OR f.written OR s.place <> ALL (f.places)
GROUP BY s.flow
UNION ALL
SELECT 'flow ' || f.id FROM limpet.flow f
WHERE f.committed_at IS NOT NULL AND NOT f.written
  AND NOT EXISTS (SELECT 1 FROM limpet.staged s WHERE s.flow = f.id)

-- statement: relaunch_is_of_failed
-- only a failed job waits for a relaunch
SELECT r.id FROM limpet.relaunch r
WHERE NOT EXISTS (SELECT 1 FROM limpet.done d WHERE d.id = r.id AND d.state = 'failed')

-- statement: settings_are_json
-- the settings of queues, keys and breakers, staged flows and rules of jobs are JSON
SELECT 'queue ' || name FROM limpet.queue
WHERE NOT (limpet.v1_is_json(declared) AND limpet.v1_is_json(adjusted))
UNION ALL
SELECT 'key ' || name FROM limpet.key WHERE NOT limpet.v1_is_json(set_rate)
UNION ALL
SELECT 'breaker ' || name FROM limpet.breaker WHERE NOT limpet.v1_is_json(piece)
UNION ALL
SELECT 'flow ' || flow || ' ' || place FROM limpet.staged WHERE NOT limpet.v1_is_json(job)
UNION ALL
SELECT 'rules ' || id FROM limpet.job WHERE NOT limpet.v1_is_json(rules)
