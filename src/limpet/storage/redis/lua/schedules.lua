-- schedules: all schedules, one, or those that tick by some time.
-- purpose: reads only.
-- params:  given[4] an id, or false
--          given[5] a time, or false
--          given[6] most schedules, where a time is given
-- returns: {0, pairs of id and what is kept of it, the first tick after that time or false}
-- include: frame

local id, by, most = given[4], given[5], given[6]
if id then
    local text = redis.call('HGET', P .. 'schedules', id)
    return {0, text and {id, text} or {}}
end
if not by then return {0, redis.call('HGETALL', P .. 'schedules')} end

local found = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'ticks', '-inf', whole(by), 'LIMIT', 0, most)) do
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', P .. 'schedules', name)
end
local later = redis.call('ZRANGEBYSCORE', P .. 'ticks', '(' .. whole(by), '+inf', 'WITHSCORES',
    'LIMIT', 0, 1)
return {0, found, later[2] or false}
