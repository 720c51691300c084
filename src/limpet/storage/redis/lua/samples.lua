-- samples: how a host has been doing, the oldest first.
-- purpose: reads only.
-- params:  server, span, for how long its samples are kept.
-- returns: {0, samples: when, in eight bytes, and what}.
-- include: frame

local key = P .. 'samples/' .. given[5] .. '/' .. given[4]
return {0, redis.call('ZRANGEBYSCORE', key, '(' .. whole(now - given[6]), '+inf')}
