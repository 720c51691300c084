-- invariants_keys: nothing is kept about what is gone, and no line is forgotten.
-- purpose: reads only.
-- params:  ids to look up by hash (pairs of hash and ids), keys of the name space without its
--          prefix.
-- returns: {0, list of rule, how often it is broken, example}.
-- include: frame
-- include: broken

for _, pair in ipairs(given[4]) do
    for _, id in ipairs(pair[2]) do
        if redis.call('HEXISTS', P .. pair[1], id) == 1
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
    elseif kind == 'ready' or kind == 'alone' then
        if there and redis.call('SISMEMBER', P .. 'lines', key) == 0 then
            wrong('line_is_listed', key)
        end
    end
    if there and not right then wrong('nothing_left_over', key) end
end
return {0, found_wrong()}
