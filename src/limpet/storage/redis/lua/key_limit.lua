-- key_limit: what is set for a key at run time.
-- purpose: reads only.
-- params:  key.
-- returns: {0, limit and rate (JSON; false for none)}.
-- include: frame

return {0, redis.call('HGET', P .. 'key_rules', given[4])}
