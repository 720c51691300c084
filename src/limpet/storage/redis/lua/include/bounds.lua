-- bounds: the rules of queues, and how many of their jobs are under way. Needs keys.lua.
-- why:     the field `ruled` of the store tells every script whether there are rules to look up.

-- Note whether there are rules or holds of queues, or breakers that are not closed, after a change of these.
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

-- Rules in force, by queue: those that were set at run time replace those that are declared.
local function queue_rules()
    local rules = {}
    for _, hash in ipairs({'declared', 'adjusted'}) do
        local kept = redis.call('HGETALL', P .. hash)
        for at = 1, #kept, 2 do
            local set, of_queue = stored.json(kept[at + 1]) or {}, rules[kept[at]] or {}
            of_queue.concurrency = stored.number(set[1], 1) or of_queue.concurrency
            of_queue.rate = stored.rate(set[2]) or of_queue.rate
            of_queue.weight = stored.number(set[3], 1) or of_queue.weight
            rules[kept[at]] = of_queue
        end
    end
    return rules
end

-- How many jobs of a queue run, with what this script has done so far.
local function running_in(queue)
    local field = queue .. '/running'
    return tonumber(redis.call('HGET', P .. 'gauge', field) or 0) + (gauges[field] or 0)
end

-- Claim nothing of a queue before that time; a longer hold stays.
local function hold_queue(queue, at)
    local held = tonumber(redis.call('ZSCORE', P .. 'holds', queue) or 0)
    if at > held then redis.call('ZADD', P .. 'holds', whole(at), queue) end
    note_ruled()
end

-- Ring for those that wait for a queue that was at its concurrency and has a place again.
ring_for_places = function()
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
