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

local function drop_flow(flow)
    redis.call('DEL', P .. 'flow/' .. flow)
    redis.call('ZREM', P .. 'staged', flow)
end

-- Whether promote has something to do now.
local function is_unfinished()
    return redis.call('EXISTS', P .. 'flows', P .. 'gone') > 0
end
