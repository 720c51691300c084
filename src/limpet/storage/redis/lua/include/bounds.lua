-- bounds: what is said of queues, and how much of each may be claimed now. Needs keys.lua.
-- why:     `ruled` in the hash of the store tells every script whether there is anything to look up.

-- Note whether anything is said of queues or breakers, after that was changed.
local function note_ruled()
    local some = redis.call('EXISTS', P .. 'declared', P .. 'adjusted', P .. 'holds', P .. 'draining',
        P .. 'tripped') > 0
    if some then
        redis.call('HSET', KEYS[1], 'ruled', 1)
    else
        redis.call('HDEL', KEYS[1], 'ruled')
    end
    ruled = some
end

-- Rules in force, by queue: what was set at run time over what is declared.
local function queue_rules()
    local rules = {}
    for _, hash in ipairs({'declared', 'adjusted'}) do
        local kept = redis.call('HGETALL', P .. hash)
        for at = 1, #kept, 2 do
            local said, of_queue = stored.json(kept[at + 1]) or {}, rules[kept[at]] or {}
            of_queue.concurrency = stored.number(said[1], 1) or of_queue.concurrency
            of_queue.rate = stored.rate(said[2]) or of_queue.rate
            of_queue.weight = stored.number(said[3], 1) or of_queue.weight
            rules[kept[at]] = of_queue
        end
    end
    return rules
end

-- How many of a queue run, with what this script has done so far.
local function running_in(queue)
    local field = queue .. '/running'
    return tonumber(redis.call('HGET', P .. 'gauge', field) or 0) + (gauges[field] or 0)
end

local function queue_given(queue)
    return tonumber(redis.call('ZSCORE', P .. 'given', 'queue:' .. queue) or 0)
end

-- Nothing of a queue is claimed before that time; one that is longer already stays.
local function hold_queue(queue, at)
    local held = tonumber(redis.call('ZSCORE', P .. 'holds', queue) or 0)
    if at > held then redis.call('ZADD', P .. 'holds', whole(at), queue) end
    note_ruled()
end

-- Room in a queue that was at its concurrency is told to those that wait for it.
ring_for_room = function()
    local rules = nil
    for field, count in pairs(gauges) do
        if count < 0 and string.sub(field, -8) == '/running' then
            rules = rules or queue_rules()
            local queue = string.sub(field, 1, -9)
            local most = rules[queue] and rules[queue].concurrency
            if most and running_in(queue) - count >= most then rings.ready = true end
        end
    end
end
