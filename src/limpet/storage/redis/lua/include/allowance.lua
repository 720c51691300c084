-- allowance: how many jobs of each queue and task may be claimed now. Needs rates.lua, bounds.lua, breakers.lua,
--          pick.lua.

-- Lua allows 200 local names in a script: only these are seen outside.
local read_bounds, bounded, take_from_bounds
do

-- The rules of queues and the breakers that are not closed; `kept` will have the lines that were kept back, and why.
function read_bounds()
    local bounds = {rules = queue_rules(), tripped = breakers.by_task(), allowances = {}, kept = {}}
    for _, of_queue in pairs(bounds.rules) do
        if of_queue.weight then bounds.weighted = true end
    end
    return bounds
end

-- How many jobs of a queue may be claimed altogether (`most`), and why no more.
local function allowance_of(bounds, queue)
    local found = bounds.allowances[queue]
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
        found.rate, found.given = rules.rate, rates.given('queue:' .. queue)
        found.paced = rates.allowed(rules.rate, found.given)
        found.most = math.max(0, math.min(found.most, found.paced))
    end
    bounds.allowances[queue] = found
    return found
end

-- How many jobs of a line may be claimed, up to `limit`.
function bounded(bounds, line, queue, task, limit, taken)
    local allowance = allowance_of(bounds, queue)
    if bounds.tripped[task] then
        for _, b in ipairs(bounds.tripped[task]) do table.insert(bounds.kept, {line, b}) end
        if not may_probe(bounds.tripped[task]) then return 0 end
    end
    if allowance.held or allowance.rate then table.insert(bounds.kept, {line, allowance, queue}) end
    return math.min(limit, allowance.most - taken)
end

-- Keep what rates have given out; returns when more may be claimed of lines that still have jobs, or nil.
function take_from_bounds(bounds, per_queue)
    for queue, allowance in pairs(bounds.allowances) do
        if allowance.rate and (per_queue[queue] or 0) > 0 then
            allowance.given = rates.taken(allowance.rate, allowance.given, per_queue[queue])
            rates.keep('queue:' .. queue, allowance.given)
        end
    end
    local soonest = nil
    for _, kept in ipairs(bounds.kept) do
        local why, at = kept[2], nil
        if why.held then
            at = why.held
        elseif why.rate then
            if (per_queue[kept[3]] or 0) >= why.paced then at = rates.next_at(why.rate, why.given) end
        else
            at = why.probe_at
        end
        if at and (not soonest or at < soonest) and redis.call('EXISTS', P .. kept[1]) == 1 then
            soonest = at
        end
    end
    return soonest
end

end
