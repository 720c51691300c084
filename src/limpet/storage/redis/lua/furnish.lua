-- furnish: pause queues and set totals and store settings as they were in another store.
-- purpose: the rest of a move, beside the jobs.
-- params:  given[4] the move
--          given[5] names of queues
--          given[6] names of paused queues
--          given[7] pairs of queue/move and count
--          given[8] store settings: lists of the command that writes them, its key and its words
-- returns: {0}
--          {1} this store does not take what this move brings
-- include: frame
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: at_stage
-- include: many

if not is_at('arriving') then return {1} end

-- include: write
-- include: bounds
-- include: moved_settings

redis.call('DEL', P .. 'total', P .. 'paused')
clear_settings()
for _, write in ipairs(given[8]) do many(write[1], P .. write[2], write[3]) end
note_ruled()
many('HSET', P .. 'total', given[7])
many('SADD', P .. 'paused', given[6])
for _, queue in ipairs(given[5]) do redis.call('HINCRBY', P .. 'gauge', queue .. '/ready', 0) end
redis.pcall('PUBLISH', P .. 'ready', 'ready')
redis.pcall('PUBLISH', P .. 'done', 'done')
return {0}
