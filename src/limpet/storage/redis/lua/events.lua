-- events: the recorded events of a job, oldest first.
-- purpose: reads only.
-- params:  given[4] job
-- returns: {0, events (msgpack)}
-- include: frame

return {0, redis.call('LRANGE', P .. 'events/' .. given[4], 0, -1)}
