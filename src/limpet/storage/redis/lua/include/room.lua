-- room: how much of each queue and task may be claimed now. Needs bounds.lua, breakers.lua, pick.lua.

-- A script has room for 200 names of its own: only these are seen outside.
local read_bounds, bounded, take_from_bounds
do

-- What is said of queues and breakers; `kept` will have the lines that were kept back, and until when.
function read_bounds()
    local bounds = {rules = queue_rules(), tripped = breakers.by_task(), room = {}, kept = {}}
    for _, of_queue in pairs(bounds.rules) do
        if of_queue.weight then bounds.weighted = true end
    end
    return bounds
end

-- How many of a queue may be claimed altogether; and, where only time can give more, when.
local function room_in(bounds, queue)
    local found = bounds.room[queue]
    if found then return found end
    local rules = bounds.rules[queue] or {}
    found = {most = math.huge}
    local held = tonumber(redis.call('ZSCORE', P .. 'holds', queue) or 0)
    if held > now then
        found.most, found.held = 0, held
    end
    if rules.concurrency then
        found.most = math.max(0, math.min(found.most, rules.concurrency - running_in(queue)))
    end
    if rules.rate then
        found.rate, found.given = rules.rate, queue_given(queue)
        found.paced = rates.room(rules.rate, found.given)
        found.most = math.max(0, math.min(found.most, found.paced))
    end
    bounds.room[queue] = found
    return found
end

-- How many of a line may be claimed, of so many for which there is room.
function bounded(bounds, line, queue, task, limit, taken)
    local room = room_in(bounds, queue)
    if bounds.tripped[task] then
        for _, b in ipairs(bounds.tripped[task]) do table.insert(bounds.kept, {line, b}) end
        if not may_probe(bounds.tripped[task]) then return 0 end
    end
    if room.held or room.rate then table.insert(bounds.kept, {line, room, queue}) end
    return math.min(limit, room.most - taken)
end

-- Keep what rates have given out; the answer is when more may be had of lines that still have jobs.
function take_from_bounds(bounds, per_queue)
    for queue, room in pairs(bounds.room) do
        if room.rate and (per_queue[queue] or 0) > 0 then
            room.given = rates.taken(room.rate, room.given, per_queue[queue])
            redis.call('ZADD', P .. 'given', whole(room.given), 'queue:' .. queue)
        end
    end
    local soonest = nil
    for _, each in ipairs(bounds.kept) do
        local why, at = each[2], nil
        if why.held then
            at = why.held
        elseif why.rate then
            if (per_queue[each[3]] or 0) >= why.paced then at = rates.next_at(why.rate, why.given) end
        else
            at = why.probe_at
        end
        if at and (not soonest or at < soonest) and redis.call('EXISTS', P .. each[1]) == 1 then
            soonest = at
        end
    end
    return soonest
end

end
