-- key_limit: the limit of a key that was set at run time.
-- purpose: reads only.
-- params:  given[4] key
-- returns: {0, limit and rate (JSON; false for none)}
-- include: frame

return {0, redis.call('HGET', P .. 'key_rules', given[4])}
