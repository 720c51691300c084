-- samples: the measurements of a host over time, oldest first.
-- purpose: reads only.
-- params:  given[4] server
--          given[5] span
--          given[6] for how long samples of this span are kept
-- returns: {0, samples: eight bytes of the time, then the text}
-- include: frame

local key = P .. 'samples/' .. given[5] .. '/' .. given[4]
return {0, redis.call('ZRANGEBYSCORE', key, '(' .. whole(now - given[6]), '+inf')}
