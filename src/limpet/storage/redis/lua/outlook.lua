-- outlook: what a sweeper must know before it ends anybody's session.
-- purpose: reads only.
-- params:  none.
-- returns: {0, lease clock, the server process whose clock it is, {id, moment} of the next lease to
--          end or {}, how many dead sessions still have jobs}.
-- include: frame

return {0, whole(now_lease), given[3], redis.call('ZRANGE', P .. 'moments', 0, 0, 'WITHSCORES'),
    redis.call('SCARD', P .. 'widowed')}
