-- furniture: what the store has beside jobs, on its way to another store or from one.
-- purpose: read it, forget it, set what is not set by the verbs.
-- params:  by name.
-- returns: queues and keys: what is said of each, in the order of the pieces in storage/furniture.py.

-- statement: queues
SELECT name, declared, adjusted, held_until, given_until, draining FROM limpet_queue

-- statement: keys
SELECT key, most, rate, given_until FROM limpet_key
WHERE most IS NOT NULL OR rate IS NOT NULL OR given_until > 0

-- statement: given
UPDATE limpet_key SET given_until = :given_until WHERE key = :key

-- statement: forget_queues
DELETE FROM limpet_queue

-- statement: forget_breakers
DELETE FROM limpet_breaker

-- statement: forget_keys
UPDATE limpet_key SET most = NULL, rate = NULL, given_until = 0
