-- cargo: the next jobs to carry to another store.
-- purpose: reads only.
-- params:  number after which to go on, most jobs, about how many bytes.
-- returns: {0, parts of each job as told_jobs lists them, the events of each, the lines of each (both
--          as msgpack), 1 if there may be more}.
-- include: frame
-- include: row
-- include: told_jobs

local ids = redis.call('ZRANGEBYSCORE', P .. 'all', '(' .. whole(given[4]), '+inf', 'LIMIT', 0,
    given[5])
local more = #ids == given[5]
local bytes, events, lines, taken = 0, {}, {}, {}
for place, id in ipairs(ids) do
    local told = redis.call('LRANGE', P .. 'events/' .. id, 0, -1)
    local said = redis.call('LRANGE', P .. 'log/' .. id, 0, -1)
    bytes = bytes + redis.call('HSTRLEN', P .. 'job', id) + redis.call('HSTRLEN', P .. 'result', id)
    for _, entry in ipairs(told) do bytes = bytes + #entry end
    for _, entry in ipairs(said) do bytes = bytes + #entry end
    if bytes > given[6] and place > 1 then
        more = true
        break
    end
    taken[place], events[place], lines[place] = id, told, said
end
return {0, told_jobs(taken), events, lines, more and 1 or 0}
