-- flows: jobs that are kept aside until all of them come into being at once.
-- why:     `staged` has the flows that are not committed, `flows` those that promote is to write out,
--          `committed` those that were committed lately, so that a repeat is known.

local function is_whole(flow, chunks)
    for place = 0, chunks - 1 do
        if redis.call('HEXISTS', P .. 'flow/' .. flow, place) == 0 then return false end
    end
    return true
end

local function commit_flow(flow, chunks)
    redis.call('ZREM', P .. 'staged', flow)
    redis.call('ZADD', P .. 'committed', whole(now), flow)
    if chunks > 0 then
        redis.call('HSET', P .. 'flow/' .. flow, 'chunks', chunks)
        redis.call('ZADD', P .. 'flows', whole(now), flow)
    else
        redis.call('DEL', P .. 'flow/' .. flow)
    end
end

-- Add the number of jobs for each queue in some parts of a flow.
local function add_queued(queued, flow, from, chunks)
    for place = from, chunks - 1 do
        local queues = stored.packed(redis.call('HGET', P .. 'flow/' .. flow, 'queues/' .. place))
        for queue, number in pairs(queues or {}) do
            queued[queue] = (queued[queue] or 0) + (stored.number(number, 0) or 0)
        end
    end
end

-- How many jobs wait in a queue, with those of committed flows that are still to be written out.
local function waiting_in(queue)
    local sum, queued = 0, {}
    for _, state in ipairs({'/ready', '/scheduled', '/blocked'}) do
        sum = sum + tonumber(redis.call('HGET', P .. 'gauge', queue .. state) or 0)
    end
    for _, flow in ipairs(redis.call('ZRANGE', P .. 'flows', 0, -1)) do
        local kept = redis.call('HMGET', P .. 'flow/' .. flow, 'at', 'chunks')
        add_queued(queued, flow, tonumber(kept[1]) or 0, tonumber(kept[2]) or 0)
    end
    return sum + (queued[queue] or 0)
end

local function drop_flow(flow)
    redis.call('DEL', P .. 'flow/' .. flow)
    redis.call('ZREM', P .. 'staged', flow)
end

-- Whether promote has something to do now.
local function is_unfinished()
    return redis.call('EXISTS', P .. 'flows', P .. 'gone') > 0
end
