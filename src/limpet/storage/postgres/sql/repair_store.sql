-- repair_store: repair what can be derived from the jobs themselves.
-- purpose: each statement repairs one rule of invariants.sql, where it is broken, and changes nothing where
--          it holds; a name that ends in a number is a further step of the same rule. No job is
--          removed, and none goes into or out of a final state.
-- params:  none, but for: alone: lock: the name of the lock.
--          total: rule, count.
-- returns: one row for each thing that was repaired; in a first step, for what it locks, none.

-- statement: alone
SELECT pg_advisory_xact_lock(hashtextextended(%(lock)s, 0))

-- statement: total
INSERT INTO limpet.tally (queue, move, source, target, jobs)
VALUES ('*', 'mend:' || %(rule)s::text, NULL, NULL, %(count)s)

-- statement: place_in_line
UPDATE limpet.ready SET sort_key = ready_at - priority * 60000000::bigint
WHERE sort_key <> ready_at - priority * 60000000::bigint
RETURNING id

-- statement: place_in_line_2
-- Left out: jobs that wait for their key have their place in `what` too.
UPDATE limpet.parked SET sort_key = ready_at - priority * 60000000::bigint
WHERE sort_key <> ready_at - priority * 60000000::bigint AND reason IS DISTINCT FROM 'key'
RETURNING id

-- statement: place_in_line_3
UPDATE limpet.running SET sort_key = ready_at - priority * 60000000::bigint
WHERE sort_key <> ready_at - priority * 60000000::bigint
RETURNING id

-- statement: place_in_line_4
UPDATE limpet.done SET sort_key = ready_at - priority * 60000000::bigint
WHERE sort_key <> ready_at - priority * 60000000::bigint
RETURNING id

-- statement: blocked_has_reason
UPDATE limpet.parked SET reason = NULL, what = NULL, since = NULL
WHERE state <> 'blocked' AND (reason IS NOT NULL OR what IS NOT NULL OR since IS NOT NULL)
RETURNING id

-- statement: blocked_has_reason_2
UPDATE limpet.parked SET reason = 'children', what = '', since = coalesce(since, ready_at)
WHERE state = 'blocked' AND pending > 0
  AND (reason IS NULL OR what IS NULL OR since IS NULL)
RETURNING id

-- statement: blocked_has_reason_3
-- To scheduled, because promote then makes the job ready as any other: with a turn of its key.
UPDATE limpet.parked SET state = 'scheduled', reason = NULL, what = NULL, since = NULL
WHERE state = 'blocked' AND (reason IS NULL OR what IS NULL OR since IS NULL)
RETURNING id

-- statement: mark_is_of_its_lease
UPDATE limpet.running SET mark = tail + token % 1048576 * 2654435761
WHERE mark <> tail + token % 1048576 * 2654435761
RETURNING id

-- statement: place_in_key
UPDATE limpet.parked b SET what = limpet.v1_line_place(j.key, b.sort_key, b.n)
FROM limpet.job j
WHERE j.id = b.id AND b.state = 'blocked' AND b.reason = 'key' AND j.key IS NOT NULL
  AND b.what IS DISTINCT FROM limpet.v1_line_place(j.key, b.sort_key, b.n)
RETURNING b.id

-- statement: permit_is_held
DELETE FROM limpet.permit p
WHERE CASE WHEN p.holder = p.session THEN NOT EXISTS (
          SELECT 1 FROM limpet.session s WHERE s.id = p.holder AND s.state <> 'dead')
      ELSE NOT EXISTS (
          SELECT 1 FROM limpet.running r WHERE r.id = p.holder AND r.session = p.session) END
RETURNING p.holder

-- statement: relaunch_is_of_failed
DELETE FROM limpet.relaunch r
WHERE NOT EXISTS (SELECT 1 FROM limpet.done d WHERE d.id = r.id AND d.state = 'failed')
RETURNING r.id

-- statement: turn_is_used
UPDATE limpet.parked b SET turn = false FROM limpet.job j
WHERE j.id = b.id AND b.turn AND (b.state <> 'scheduled' OR j.key IS NULL)
RETURNING b.id

-- statement: turn_is_given
-- Promote reads the note, and gives the free turns.
INSERT INTO limpet.note (kind, what)
SELECT 'key', split_part(b.what, E'\x1e', 1) FROM limpet.parked b
LEFT JOIN limpet.key k ON k.name = split_part(b.what, E'\x1e', 1)
WHERE b.state = 'blocked' AND b.reason = 'key'
  AND (k.name IS NULL OR (k.held = 0 AND k.next_at IS NULL))
  AND coalesce(k.set_limit, 1) > 0
GROUP BY 2
RETURNING what

-- statement: turns_are_counted
-- No turn is taken or given back while its key is locked; the next step counts.
SELECT NULL FROM limpet.v1_keys(ARRAY(
    SELECT k.name FROM limpet.key k
    UNION
    SELECT j.key FROM limpet.placed p JOIN limpet.job j ON j.id = p.id
    WHERE p.turn AND j.key IS NOT NULL))

-- statement: turns_are_counted_2
UPDATE limpet.key k SET held = r.there
FROM (
    SELECT o.name, coalesce(sum(t.jobs), 0) AS there FROM limpet.key o LEFT JOIN (
        SELECT j.key, count(*) AS jobs FROM limpet.placed p JOIN limpet.job j ON j.id = p.id
        WHERE p.turn AND j.key IS NOT NULL GROUP BY j.key
        UNION ALL
        SELECT j.key, count(*) FROM limpet.note n JOIN limpet.job j ON j.id = n.what
        WHERE n.kind = 'ended' AND n.turn AND j.key IS NOT NULL GROUP BY j.key) t
    ON t.key = o.name GROUP BY o.name) r
WHERE r.name = k.name AND k.held <> r.there
RETURNING k.name

-- statement: turns_are_counted_3
-- Where fewer turns are taken than was counted, promote gives the others.
INSERT INTO limpet.note (kind, what)
SELECT DISTINCT 'key', split_part(b.what, E'\x1e', 1) FROM limpet.parked b
WHERE b.state = 'blocked' AND b.reason = 'key'

-- statement: holdings
-- No session claims or settles while its row is locked; the next step counts.
SELECT NULL FROM limpet.hold ORDER BY session FOR UPDATE

-- statement: holdings_2
UPDATE limpet.hold h SET held_count = r.count, held_total = r.total
FROM (
    SELECT o.session, count(r.id) AS count,
           coalesce(sum(r.mark), 0)::bigint & 281474976710655 AS total
    FROM limpet.hold o LEFT JOIN limpet.running r ON r.session = o.session
    GROUP BY o.session) r
WHERE r.session = h.session AND (h.held_count <> r.count OR h.held_total <> r.total)
RETURNING h.session

-- statement: counts_are_right
INSERT INTO limpet.tally (queue, move, source, target, jobs)
SELECT queue, '', NULL, state, sum(there) - sum(counted)
FROM (
    SELECT queue, target AS state, sum(jobs) AS counted, 0::numeric AS there FROM limpet.tally
    WHERE target IS NOT NULL GROUP BY queue, target
    UNION ALL
    SELECT queue, source, -sum(jobs), 0 FROM limpet.tally
    WHERE source IS NOT NULL GROUP BY queue, source
    UNION ALL
    SELECT queue, state, 0, count(*) FROM limpet.placed GROUP BY queue, state) both_ways
GROUP BY queue, state HAVING sum(counted) <> sum(there)
RETURNING queue
