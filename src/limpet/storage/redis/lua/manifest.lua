-- manifest: what there is to move, or what has arrived.
-- purpose: reads only.
-- params:  none.
-- returns: {0, gauges and totals (pairs of queue/what and count), paused queues, how many rows,
--          payloads and listed jobs there are}.
-- include: frame

return {0, redis.call('HGETALL', P .. 'gauge'), redis.call('HGETALL', P .. 'total'),
    redis.call('SMEMBERS', P .. 'paused'), {redis.call('HLEN', P .. 'row'),
    redis.call('HLEN', P .. 'job'), redis.call('ZCARD', P .. 'all')}}
