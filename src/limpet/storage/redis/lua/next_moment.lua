-- next_moment: when the next lease ends, on the lease clock.
-- purpose: reads only.
-- params:  none.
-- returns: {0, {id, moment}} or {0, {}}.
-- include: frame

return {0, redis.call('ZRANGE', P .. 'moments', 0, 0, 'WITHSCORES')}
