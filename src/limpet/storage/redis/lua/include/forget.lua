-- forget: removes everything that is kept of some jobs, but for their places in the collections of their
--          states and the counts. Needs keys.lua.

-- Remove what is kept of a job under its unique and its parent.
local function forget_beside(r)
    if not flagged(r.flags, UNIQUE + FAMILY) then return end
    local extra = extra_of(r)
    if extra.unique then
        local field = r.task .. '/' .. extra.unique
        if redis.call('HGET', P .. 'unique', field) == r.id then
            redis.call('HDEL', P .. 'unique', field)
        end
    end
    if extra.parent then redis.call('ZREM', P .. 'children/' .. extra.parent, r.id) end
end

-- Remove what is kept under the ids of jobs, at most a thousand.
local function forget(ids)
    local keys = {}
    for _, id in ipairs(ids) do
        keys[#keys + 1] = P .. 'events/' .. id
        keys[#keys + 1] = P .. 'log/' .. id
        keys[#keys + 1] = P .. 'children/' .. id
    end
    for first = 1, #keys, 1000 do
        redis.call('DEL', unpack(keys, first, math.min(first + 999, #keys)))
    end
    for _, hash in ipairs({'job', 'row', 'extra', 'result', 'result_secrets', 'error', 'progress',
        'pending'}) do
        redis.call('HDEL', P .. hash, unpack(ids))
    end
    redis.call('ZREM', P .. 'all', unpack(ids))
    redis.call('ZREM', P .. 'relaunch', unpack(ids))
end
