-- schedules: all of them, one, or those that tick by some time.
-- purpose: reads only.
-- params:  an id or false; a time or false, and how many then at most.
-- returns: {0, pairs of id and what is kept of it, the first tick after that time}.
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
