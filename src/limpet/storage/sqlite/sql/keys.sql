-- keys: turns of keys, and the lines of jobs that wait for one.
-- purpose: ready or running only with a turn; a turn that is given back goes to the next in line.
-- params:  by name; :keys and :numbers are JSON lists.
-- returns: state: for each key, whether any job waits, how many have a turn, and the key's settings.
--          heads: for each key in which a job waits: how many have a turn, the key's settings, the first
--              job in line, and the rules of the second.
--          line: the jobs that wait for a key, in order, after the first :passed.
--          due: keys whose turns promote can give now.
--          waiting: jobs that are to become ready.
--          rules: numbers and rules of jobs.
--          limit_of: the limits that were set for a key at run time.

-- statement: state
SELECT e.value,
       EXISTS (SELECT 1 FROM limpet_job w INDEXED BY limpet_job_line
               WHERE w.key = e.value AND w.turn = 2),
       (SELECT count(*) FROM limpet_job t INDEXED BY limpet_job_turn
        WHERE t.key = e.value AND t.turn = 1),
       k.most, k.rate, k.given_until
FROM json_each(:keys) e
LEFT JOIN limpet_key k ON k.key = e.value

-- statement: heads
SELECT e.value,
       (SELECT count(*) FROM limpet_job t INDEXED BY limpet_job_turn
        WHERE t.key = e.value AND t.turn = 1),
       k.most, k.rate, k.given_until,
       h.n, h.queue, h.rules,
       (SELECT coalesce(w.rules, '{}') FROM limpet_job w INDEXED BY limpet_job_line
        WHERE w.key = e.value AND w.turn = 2
        ORDER BY w.sort_key, w.n LIMIT 1 OFFSET 1)
FROM json_each(:keys) e
LEFT JOIN limpet_key k ON k.key = e.value
CROSS JOIN limpet_job h ON h.n = (
    SELECT w.n FROM limpet_job w INDEXED BY limpet_job_line
    WHERE w.key = e.value AND w.turn = 2
    ORDER BY w.sort_key, w.n LIMIT 1)

-- statement: line
SELECT w.n, w.queue, w.rules
FROM limpet_job w INDEXED BY limpet_job_line
WHERE w.key = :key AND w.turn = 2
ORDER BY w.sort_key, w.n
LIMIT :limit OFFSET :passed

-- statement: waiting
SELECT n, queue, state, key, turn, sort_key FROM limpet_job
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: rules
SELECT n, rules FROM limpet_job WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: given
UPDATE limpet_job SET state = 'ready', turn = 1
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: wait
UPDATE limpet_job SET state = 'blocked', turn = 2
WHERE n IN (SELECT value FROM json_each(:numbers))

-- statement: ready
UPDATE limpet_job SET state = 'ready' WHERE n = ?

-- statement: keep
INSERT INTO limpet_key (key, given_until, next_at) VALUES (:key, :given_until, :next_at)
ON CONFLICT (key) DO UPDATE SET given_until = excluded.given_until, next_at = excluded.next_at

-- statement: limit
INSERT INTO limpet_key (key, most, rate) VALUES (:key, :most, :rate)
ON CONFLICT (key) DO UPDATE SET most = excluded.most, rate = excluded.rate

-- statement: limit_of
SELECT most, rate FROM limpet_key WHERE key = :key

-- statement: due
SELECT key FROM limpet_key INDEXED BY limpet_key_next
WHERE next_at IS NOT NULL AND next_at <= :now
ORDER BY next_at
LIMIT :limit

-- statement: not_due
UPDATE limpet_key SET next_at = NULL WHERE key IN (SELECT value FROM json_each(:keys))

-- statement: forget_idle
DELETE FROM limpet_key WHERE key IN (
    SELECT key FROM limpet_key INDEXED BY limpet_key_idle
    WHERE most IS NULL AND rate IS NULL AND next_at IS NULL AND given_until < :now
    LIMIT :limit)
