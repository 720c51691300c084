-- manifest: what there is to move, or what has arrived.
-- purpose: reads only.
-- params:  none.
-- returns: {0, gauges and totals (pairs of queue/what and count), paused queues, how many rows,
--          payloads and listed jobs there are, then pairs: declared and set rules of queues, holds, what
--          rates have given out; drained queues; pairs: rules of keys, rules and states of breakers,
--          schedules}.
-- include: frame

return {0, redis.call('HGETALL', P .. 'gauge'), redis.call('HGETALL', P .. 'total'),
    redis.call('SMEMBERS', P .. 'paused'), {redis.call('HLEN', P .. 'row'),
    redis.call('HLEN', P .. 'job'), redis.call('ZCARD', P .. 'all')},
    redis.call('HGETALL', P .. 'declared'), redis.call('HGETALL', P .. 'adjusted'),
    redis.call('ZRANGE', P .. 'holds', 0, -1, 'WITHSCORES'),
    redis.call('ZRANGE', P .. 'given', 0, -1, 'WITHSCORES'), redis.call('SMEMBERS', P .. 'draining'),
    redis.call('HGETALL', P .. 'key_rules'), redis.call('HGETALL', P .. 'breaker_rules'),
    redis.call('HGETALL', P .. 'breaker_state'), redis.call('HGETALL', P .. 'schedules')}
