-- info: the fields of the store itself.
-- purpose: reads only.
-- params:  none
-- returns: {0, pairs of field and value}
-- include: frame

return {0, redis.call('HGETALL', KEYS[1])}
