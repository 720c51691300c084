-- furnish: pause queues and set totals as they were in another store.
-- purpose: the rest of a move, beside the jobs.
-- params:  the move, names of queues, those that are paused, pairs of queue/move and count, furniture
--          (lists of the command that writes it, its key and its words).
-- returns: {0}; {1} for a store that does not take them.
-- include: frame
-- include: row
-- include: keys
-- include: moves
-- include: at_stage
-- include: many

if not is_at('arriving') then return {1} end

-- include: write
-- include: bounds
-- include: furniture

redis.call('DEL', P .. 'total', P .. 'paused')
clear_furniture()
for _, each in ipairs(given[8]) do many(each[1], P .. each[2], each[3]) end
note_ruled()
many('HSET', P .. 'total', given[7])
many('SADD', P .. 'paused', given[6])
for _, queue in ipairs(given[5]) do redis.call('HINCRBY', P .. 'gauge', queue .. '/ready', 0) end
redis.pcall('PUBLISH', P .. 'ready', 'ready')
redis.pcall('PUBLISH', P .. 'done', 'done')
return {0}
