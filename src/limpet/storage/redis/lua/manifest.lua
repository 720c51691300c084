-- manifest: what there is to move, or what has arrived.
-- purpose: reads only.
-- params:  none
-- returns: {0, gauges, totals, paused, rows, declared, adjusted, holds, given, draining, keys, breakers,
--          states, schedules}
--          gauges, totals: pairs of queue/state or queue/move and count
--          paused, draining: names of queues
--          rows: how many rows, payloads and listed jobs there are
--          declared, adjusted: pairs of queue and rules
--          holds: pairs of queue and time
--          given: pairs of key:KEY or queue:QUEUE and until when its rate is given out
--          keys, breakers, states, schedules: pairs of name and what is kept of it
-- include: frame

return {0, redis.call('HGETALL', P .. 'gauge'), redis.call('HGETALL', P .. 'total'),
    redis.call('SMEMBERS', P .. 'paused'), {redis.call('HLEN', P .. 'row'),
    redis.call('HLEN', P .. 'job'), redis.call('ZCARD', P .. 'all')},
    redis.call('HGETALL', P .. 'declared'), redis.call('HGETALL', P .. 'adjusted'),
    redis.call('ZRANGE', P .. 'holds', 0, -1, 'WITHSCORES'),
    redis.call('ZRANGE', P .. 'given', 0, -1, 'WITHSCORES'), redis.call('SMEMBERS', P .. 'draining'),
    redis.call('HGETALL', P .. 'key_rules'), redis.call('HGETALL', P .. 'breaker_rules'),
    redis.call('HGETALL', P .. 'breaker_state'), redis.call('HGETALL', P .. 'schedules')}
