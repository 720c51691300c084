-- moved_settings: the settings of the store, on their way to another store or from one.
-- purpose: read them, remove them, set those that no verb sets.
-- params:  by name.
-- returns: queues, keys: the settings of each, in the order of the fields in records/store_settings.py.

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
