-- invariants_keys: check that nothing is kept about what is gone, and that every line is listed.
-- purpose: reads only.
-- params:  given[4] ids to look up by hash (pairs of hash and ids)
--          given[5] keys of the name space, without its prefix
-- returns: {0, list of {rule, how often it is broken, example}}
-- include: frame
-- include: row
-- include: rates
-- include: keys
-- include: broken

-- A child that is listed is there, and its own parent is this one.
local function check_children(parent)
    for _, id in ipairs(redis.call('ZRANGE', P .. 'children/' .. parent, 0, -1)) do
        local r = find_row(id)
        if not r or extra_of(r).parent ~= parent then wrong('child_is_listed', parent .. ' ' .. id) end
    end
end

local function check_unique(field)
    local id = redis.call('HGET', P .. 'unique', field)
    local r = id and find_row(id)
    if id and not (r and r.task .. '/' .. (extra_of(r).unique or '') == field) then
        wrong('unique_is_held', field)
    end
end

for _, pair in ipairs(given[4]) do
    for _, id in ipairs(pair[2]) do
        if pair[1] == 'unique' then
            check_unique(id)
        elseif redis.call('HEXISTS', P .. pair[1], id) == 1
            and redis.call('HEXISTS', P .. 'row', id) == 0 then
            wrong('nothing_left_over', pair[1] .. ' ' .. id)
        end
    end
end
for _, key in ipairs(given[5]) do
    local slash = string.find(key, '/', 1, true)
    local kind, name = string.sub(key, 1, slash - 1), string.sub(key, slash + 1)
    local there = redis.call('EXISTS', P .. key) == 1
    local right = true
    if kind == 'events' or kind == 'log' then
        right = redis.call('HEXISTS', P .. 'row', name) == 1
    elseif kind == 'held' or kind == 'cancels' then
        right = redis.call('EXISTS', P .. 'session/' .. name) == 1
    elseif kind == 'session' then
        right = redis.call('ZSCORE', P .. 'sessions', name)
        if there and not right then wrong('session_is_listed', name) end
        right = true
    elseif kind == 'tasks' then
        right = redis.call('HEXISTS', P .. 'digests', name) == 1
    elseif kind == 'children' then
        check_children(name)
    elseif kind == 'waits' then
        if there and not key_of(name).lined then wrong('turns_are_counted', name .. ' has a line') end
    elseif kind == 'flow' then
        if there and not redis.call('ZSCORE', P .. 'staged', name)
            and not redis.call('ZSCORE', P .. 'flows', name) then
            wrong('flow_is_listed', name)
        end
    elseif kind == 'ready' or kind == 'alone' then
        if there and redis.call('SISMEMBER', P .. 'lines', key) == 0 then
            wrong('line_is_listed', key)
        end
    end
    if there and not right then wrong('nothing_left_over', key) end
end
return {0, found_wrong()}
