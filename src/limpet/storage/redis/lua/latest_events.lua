-- latest_events: the last events of all jobs that are there, newest first.
-- purpose: reads only.
-- params:  given[4] how many
-- returns: {0, list of job, task, queue and event (msgpack)}
-- include: frame

local entries = {}
for _, entry in ipairs(redis.call('LRANGE', P .. 'latest', 0, -1)) do
    if #entries == given[4] then break end
    local id = (stored.packed(entry) or {})[1]
    if type(id) == 'string' and redis.call('HEXISTS', P .. 'row', id) == 1 then
        entries[#entries + 1] = entry
    end
end
return {0, entries}
