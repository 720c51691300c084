-- log: the lines that a job wrote, oldest first.
-- purpose: reads only.
-- params:  given[4] job
-- returns: {0, lines (msgpack)}
-- include: frame

return {0, redis.call('LRANGE', P .. 'log/' .. given[4], 0, -1)}
