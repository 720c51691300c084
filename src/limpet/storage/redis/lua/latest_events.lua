-- latest_events: what was recorded last, of any job that is there, newest first.
-- purpose: reads only.
-- params:  how many.
-- returns: {0, job, task, queue and event, as msgpack}.
-- include: frame

local told = {}
for _, entry in ipairs(redis.call('LRANGE', P .. 'latest', 0, -1)) do
    if #told == given[4] then break end
    local id = (stored.packed(entry) or {})[1]
    if type(id) == 'string' and redis.call('HEXISTS', P .. 'row', id) == 1 then told[#told + 1] = entry end
end
return {0, told}
