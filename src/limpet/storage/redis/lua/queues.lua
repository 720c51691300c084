-- queues: how many jobs of each queue are in each state, which queues are paused, and which job is first.
-- purpose: reads only.
-- params:  none
-- returns: {0, gauges, paused, heads, now, declared, adjusted, holds, given, draining}
--          gauges: pairs of queue/state and count
--          paused, draining: names of queues
--          heads: the first job of each line {queue, sort key, since when it is ready}
--          now: wall time
--          declared, adjusted: pairs of queue and rules (JSON)
--          holds: pairs of queue and time
--          given: pairs of key:KEY or queue:QUEUE and until when its rate is given out
-- include: frame
-- include: row

local heads = {}
for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do
    local first = redis.call('ZRANGE', P .. line, 0, 0, 'WITHSCORES')
    local r = first[1] and find_row(string.sub(first[1], @place.id))
    if r then heads[#heads + 1] = {r.queue, first[2], whole(r.ready_at)} end
end
return {0, redis.call('HGETALL', P .. 'gauge'), redis.call('SMEMBERS', P .. 'paused'), heads,
    whole(now), redis.call('HGETALL', P .. 'declared'), redis.call('HGETALL', P .. 'adjusted'),
    redis.call('ZRANGE', P .. 'holds', 0, -1, 'WITHSCORES'),
    redis.call('ZRANGE', P .. 'given', 0, -1, 'WITHSCORES'), redis.call('SMEMBERS', P .. 'draining')}
