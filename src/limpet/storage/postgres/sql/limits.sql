-- limits: the rules of queues and keys (claims read them, see functions/24_limits.sql).
-- purpose: keep the rules that are declared, those that are set at run time, and those in force.
-- params:  by name.
--          declared, adjusted, rate: JSON.
-- returns: rules: the declared and the set rules of a queue, locked.
--          key_limit: the limit and the rate that were set for a key.

-- statement: begin
INSERT INTO limpet.queue (name) VALUES (%(queue)s) ON CONFLICT (name) DO NOTHING

-- statement: rules
SELECT declared, adjusted FROM limpet.queue WHERE name = %(queue)s FOR UPDATE

-- statement: write
UPDATE limpet.queue
SET declared = %(declared)s, adjusted = %(adjusted)s, concurrency = %(concurrency)s,
    limited_at = CASE WHEN concurrency IS NULL THEN limpet.v1_time(NULL) ELSE limited_at END,
    step = %(step)s, burst = %(burst)s, weight = %(weight)s
WHERE name = %(queue)s

-- statement: count
-- From now on claims count the running jobs of this queue by an index.
-- Rows that others have locked are left to the claims of the next minute (functions/24_limits.sql).
UPDATE limpet.running SET limited = true WHERE ctid = ANY (ARRAY(
    SELECT r.ctid FROM limpet.running r WHERE r.queue = %(queue)s AND NOT r.limited
    FOR UPDATE SKIP LOCKED))

-- statement: hold
INSERT INTO limpet.queue (name, held_until) VALUES (%(queue)s, %(until)s)
ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until

-- statement: drain
INSERT INTO limpet.queue (name, draining) VALUES (%(queue)s, %(draining)s)
ON CONFLICT (name) DO UPDATE SET draining = excluded.draining

-- statement: key
INSERT INTO limpet.key AS k (name, held, set_limit, set_rate, rated)
VALUES (%(key)s, 0, %(limit)s, %(rate)s, %(rate)s::text IS NOT NULL)
ON CONFLICT (name) DO UPDATE
SET set_limit = excluded.set_limit, set_rate = excluded.set_rate, rated = k.rated OR excluded.rated

-- statement: key_limit
SELECT set_limit, set_rate FROM limpet.key WHERE name = %(key)s

-- statement: idle_keys
DELETE FROM limpet.key WHERE name = ANY (ARRAY(
    SELECT k.name FROM limpet.key k
    WHERE k.held = 0 AND k.set_limit IS NULL AND k.set_rate IS NULL AND k.next_at IS NULL
      AND k.given_until <= %(now)s AND NOT EXISTS (
          SELECT FROM limpet.parked b
          WHERE b.state = 'blocked' AND b.reason = 'key'
            AND b.what > k.name || E'\x1e' AND b.what < k.name || E'\x1f')
    LIMIT 1000 FOR UPDATE SKIP LOCKED))
