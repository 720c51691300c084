-- furnish: pause queues and set totals as they were in another store.
-- purpose: the rest of a move, beside the jobs.
-- params:  the move, names of queues, those that are paused, pairs of queue/move and count.
-- returns: {0}; {1} for a store that does not take them.
-- include: frame
-- include: at_stage
-- include: many

if not is_at('arriving') then return {1} end

-- include: write

redis.call('DEL', P .. 'total', P .. 'paused')
many('HSET', P .. 'total', given[7])
many('SADD', P .. 'paused', given[6])
for _, queue in ipairs(given[5]) do redis.call('HINCRBY', P .. 'gauge', queue .. '/ready', 0) end
redis.pcall('PUBLISH', P .. 'ready', 'ready')
redis.pcall('PUBLISH', P .. 'done', 'done')
return {0}
